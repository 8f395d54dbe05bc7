package operate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/base/prefix"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store/sqlplane"
)

// KeyFilter chooses operations. The zero value of KeyFilter chooses all operations.
type KeyFilter struct {
	Window

	State       string    // one of running, waiting, done, unknown and expired; "" means all states
	Scope       string    // operations of this scope; "" means all scopes
	ScopePrefix string    // operations whose scope begins with this text
	Name        string    // operations with this Operation.Name, the kind of work
	Since       time.Time // operations that began at this time or later; operations without a lease that ended at this time or later
	Before      time.Time // operations that began before this time

	// Most limits the number of operations that are read from the database to fill the page; if the limit has ended the page, Page.Cut is true. 0 means
	// no limit.
	Most int

	is string // replaces the condition of State; only sagas set it
}

// List returns the operations that match f, sorted by scope and key. Each call reads one page, as the table is at the time of the call; an operation
// that exists during all calls is on exactly one page. If f filters by a state of unfinished operations or by the scope, List uses an index of the
// database. With every other filter, List reads the whole table, up to f.Most operations.
func (a *Keys) List(ctx context.Context, f KeyFilter) (p Page[Operation], err error) {
	in, err := a.within(f)
	if err != nil {
		return p, err
	}
	end, err := a.end(ctx, f, in)
	if err != nil {
		return p, err
	}
	if end != nil {
		in.until(a.db.Dialect(), *end)
	}
	where, err := a.where(f, in)
	if err != nil {
		return p, err
	}
	// The query reads one operation more than the page has, to learn whether another page follows.
	query := a.statement(operationsIn(in.index)+where.text+" order by scope, KEY limit ?", append(where.args, f.limit()+1)...)
	list, err := collect(ctx, a.db.Pool(), query, scanOperation)
	if err != nil {
		return p, err
	}
	p = pageOf(list, f.Window, func(op Operation) string { return cursor{op.Scope, op.Key}.String() })
	// The limit of rows has ended the page, and matches may follow after it.
	if p.Next == "" && end != nil {
		p.Next, p.Cut = end.String(), true
	}
	return p, nil
}

// end returns the last operation that f.Most allows to read, or nil if fewer operations exist.
func (a *Keys) end(ctx context.Context, f KeyFilter, in conditions) (end *cursor, err error) {
	if f.Most <= 0 {
		return nil, nil //nolint:nilnil // nil means no limit
	}
	query := "select scope, KEY from once_operation" + in.index + " where " + in.text + " order by scope, KEY limit 1 offset ?"
	err = a.db.Pool().Query(ctx, a.statement(query, append(slices.Clip(in.args), int64(f.Most))...), func(row sqlplane.Row) error {
		end = new(cursor)
		return row.Scan(&end.scope, &end.key)
	})
	return end, err
}

// Search returns the operations whose scope begins with f.ScopePrefix and whose stored key is the parameter key or the hash of this key. Search looks
// into at most f.Most scopes (default: 1000), by the index of scope and key. To get the next page, set f.After to the Page.Next of the previous page.
// Search uses only the fields ScopePrefix, Most and After of f.
func (a *Keys) Search(ctx context.Context, key string, f KeyFilter) (p Page[Operation], err error) {
	const atOnce = 200 // scopes
	most := f.Most
	if most <= 0 {
		most = 1000
	}
	scopes, err := a.scopes(ctx, f, most+1)
	if err != nil {
		return p, err
	}
	if len(scopes) > most {
		// One scope more than allowed was read, so another page follows.
		scopes = scopes[:most]
		p.Next, p.Cut = cursor{scope: scopes[most-1]}.String(), true
	}
	p.Items = []Operation{}
	for some := range slices.Chunk(scopes, atOnce) {
		args := []any{key, keyname.Hashed(key)}
		for _, scope := range some {
			args = append(args, scope)
		}
		query := operationColumns + "KEY in (?, ?) and scope in (?" + strings.Repeat(", ?", len(some)-1) + ") order by scope, KEY"
		list, err := collect(ctx, a.db.Pool(), a.statement(query, args...), scanOperation)
		if err != nil {
			return p, err
		}
		p.Items = append(p.Items, list...)
	}
	return p, nil
}

// looseScopes jumps from one scope to the next one by the primary key, and skips the other operations of a scope. BOUND is replaced by a condition on the
// last scope.
var looseScopes = map[sqlplane.Dialect]string{
	sqlplane.PostgreSQL: loose, sqlplane.SQLite: loose,
	sqlplane.MySQL: "select distinct scope from once_operation where scope > ?BOUND order by scope limit ?",
}

const loose = `with recursive q(scope) as (select (select scope from once_operation where scope > ?BOUND order by scope limit 1)
 union all select (select scope from once_operation where scope > q.scopeBOUND order by scope limit 1) from q where q.scope is not null)
 select scope from q where scope is not null limit ?`

// scopes returns the next scopes that begin with f.ScopePrefix, in order.
func (a *Keys) scopes(ctx context.Context, f KeyFilter, most int) ([]string, error) {
	from := f.ScopePrefix // a scope that begins with the prefix is longer than the prefix, so it is greater
	if f.After != "" {
		c, err := parseCursor(f.After)
		if err != nil {
			return nil, err
		}
		from = max(from, c.scope)
	}
	query, args, bound := looseScopes[a.db.Dialect()], []any{from}, ""
	if before := prefix.After(f.ScopePrefix); f.ScopePrefix != "" && before != "" {
		bound = " and scope < ?"
		// The recursive query contains the bound twice.
		for range strings.Count(query, "BOUND") {
			args = append(args, before)
		}
	}
	query = strings.ReplaceAll(query, "BOUND", bound)
	return collect(ctx, a.db.Pool(), a.statement(query, append(args, int64(most))...), func(row sqlplane.Row) (scope string, err error) {
		err = row.Scan(&scope)
		return scope, err
	})
}

// FindHash returns all operations that match f and whose key has the given hash. Logs show the hashes of keys. No index of the database contains the
// hashes of keys, so set f.Scope or f.Since to limit the rows that FindHash reads.
func (a *Keys) FindHash(ctx context.Context, hash string, f KeyFilter) (found []Operation, err error) {
	const read = 1000 // at once
	for f.Limit, f.After = read, ""; ; {
		p, err := a.List(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, op := range p.Items {
			if slices.Contains(keyname.Hashes(op.Key), hash) {
				found = append(found, op)
			}
		}
		if f.After = p.Next; f.After == "" {
			return found, nil
		}
	}
}

var states = map[string]string{
	"":           "1 = 1",
	"running":    "state = 1",
	"waiting":    "state = 4",
	"done":       "state = 2 and (expires_at is null or expires_at > NOW)",
	"unknown":    "state = 3",
	StateExpired: "state = 2 and expires_at <= NOW",
}

// conditions has conditions on rows of once_operation.
type conditions struct {
	text  string
	args  []any
	index string // the index hint that follows the table
}

func (c *conditions) and(cond string, values ...any) {
	c.text += " and " + cond
	// A copy, because two queries share their first conditions.
	c.args = append(slices.Clip(c.args), values...)
}

// until adds the condition that an operation is not after end.
func (c *conditions) until(d sqlplane.Dialect, end cursor) {
	if d == sqlplane.MySQL {
		c.and("(scope < ? or scope = ? and KEY <= ?)", end.scope, end.scope, end.key)
		return
	}
	c.and("(scope, KEY) <= (?, ?)", end.scope, end.key)
}

// unfinished has the hints for the index of unfinished operations, which is ordered by scope and key.
var unfinished = map[sqlplane.Dialect]string{
	sqlplane.SQLite: " indexed by once_operation_unfinished",
	sqlplane.MySQL:  " force index (once_operation_expires_at)",
}

// isUnfinished is the condition of unfinished operations, which never expire. The text for PostgreSQL does not say that they never expire: the
// planner would treat the two conditions as independent, expect few rows, and sort all of them.
var isUnfinished = map[sqlplane.Dialect]string{
	sqlplane.PostgreSQL: "state <> 2",
	sqlplane.SQLite:     "expires_at is null and state <> 2",
}

// within returns the conditions that limit the rows that are read, by an index.
func (a *Keys) within(f KeyFilter) (c conditions, err error) {
	c.text = "1 = 1"
	switch f.State {
	case "running", "waiting", "unknown":
		c = conditions{text: isUnfinished[a.db.Dialect()], index: unfinished[a.db.Dialect()]}
		if a.db.Dialect() == sqlplane.MySQL { // on MySQL the index is ordered by scope and key only within each state
			c.text = "expires_at is null and " + states[f.State]
		}
	}
	if f.Scope != "" {
		c.and("scope = ?", f.Scope)
	}
	if f.ScopePrefix != "" { // as a range, because an index can serve a range, and the prefix needs no escaping
		c.and("scope >= ?", f.ScopePrefix)
		if end := prefix.After(f.ScopePrefix); end != "" {
			c.and("scope < ?", end)
		}
	}
	if f.After == "" {
		return c, nil
	}
	after, err := parseCursor(f.After)
	if err != nil {
		return c, err
	}
	if a.db.Dialect() == sqlplane.MySQL { // for a row comparison MySQL would read all earlier rows
		c.and("(scope > ? or scope = ? and KEY > ?)", after.scope, after.scope, after.key)
		return c, nil
	}
	c.and("(scope, KEY) > (?, ?)", after.scope, after.key)
	return c, nil
}

// where returns all conditions of f. The parameter in has the conditions from within.
func (a *Keys) where(f KeyFilter, in conditions) (c conditions, err error) {
	is, ok := states[f.State]
	if !ok {
		return c, fmt.Errorf("operate: the state %q does not exist. Try: running, waiting, done, unknown or expired", f.State)
	}
	if f.is != "" {
		is = f.is
	}
	c = in
	c.and(is)
	if f.Name != "" {
		c.and("name = ?", f.Name)
	}
	if !f.Since.IsZero() {
		c.and("since >= ?", dialect.StoredTime(a.db.Dialect(), f.Since))
	}
	if !f.Before.IsZero() {
		c.and("since < ?", dialect.StoredTime(a.db.Dialect(), f.Before))
	}
	return c, nil
}
