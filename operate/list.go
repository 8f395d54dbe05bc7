package operate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/base/prefix"
	"github.com/oncelib/once/internal/sql/dialect"
)

// KeyFilter says which operations to list. The zero value means all of them.
type KeyFilter struct {
	Window

	State       string    // running, waiting, done, unknown or expired
	Scope       string    // this one
	ScopePrefix string    // those that begin so
	Name        string    // of this kind: Operation.Name
	Since       time.Time // begun at this moment or later; for atomic work that is when it was done
	Before      time.Time // begun before it

	is string // the condition of a state that only sagas have, in place of State
}

// List returns operations by scope and key. Each call sees the table as it is then; an operation that is there all the
// while is listed once. Filters on anything but scope read through the whole table.
func (a *Keys) List(ctx context.Context, f KeyFilter) (p Page[Operation], err error) {
	where, args, err := a.where(f)
	if err != nil {
		return p, err
	}
	query := a.statement(operationColumns+where+" order by scope, KEY limit ?", append(args, f.limit()+1)...)
	list, err := collect(ctx, a.db.Pool(), query, scanOperation)
	if err != nil {
		return p, err
	}
	return pageOf(list, f.Window, func(op Operation) string { return cursor{op.Scope, op.Key}.String() }), nil
}

// FindHash returns all operations that f leaves and whose key has the hash that logs show. No index has it: f.Scope and f.Since
// bound what is read.
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

func (a *Keys) where(f KeyFilter) (text string, args []any, err error) {
	text, ok := states[f.State]
	if !ok {
		return "", nil, fmt.Errorf("operate: there is no state %q. Try: running, waiting, done, unknown or expired", f.State)
	}
	if f.is != "" {
		text = f.is
	}
	and := func(cond string, values ...any) {
		text += " and " + cond
		args = append(args, values...)
	}
	if f.Scope != "" {
		and("scope = ?", f.Scope)
	}
	if f.ScopePrefix != "" { // a range: an index serves it, and nothing needs to be escaped
		and("scope >= ?", f.ScopePrefix)
		if end := prefix.After(f.ScopePrefix); end != "" {
			and("scope < ?", end)
		}
	}
	if f.Name != "" {
		and("name = ?", f.Name)
	}
	if !f.Since.IsZero() {
		and("since >= ?", dialect.StoredTime(a.db.Dialect(), f.Since))
	}
	if !f.Before.IsZero() {
		and("since < ?", dialect.StoredTime(a.db.Dialect(), f.Before))
	}
	if f.After != "" {
		c, err := parseCursor(f.After)
		if err != nil {
			return "", nil, err
		}
		and("(scope, KEY) > (?, ?)", c.scope, c.key)
	}
	return text, args, nil
}
