package saga

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/oncelib/once/internal/owner"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/upkeep"
)

// due stores which sagas wait, and until which time.
type due interface {
	// wait returns the writes that commit together with the change to a waiting saga. If the saga has not seen a stored
	// wake, its wait ends at once.
	wait(id store.ID, name string, after time.Duration) []store.Statement

	// wake returns the writes that end a wait. If a node is running the saga, they end its next wait.
	wake(id store.ID, name string) []store.Statement

	// drop returns the writes that commit together with the change to a saga that does not wait any more.
	drop(id store.ID) []store.Statement

	// drained returns the statement that deletes the rows of all sagas that a [upkeep.Taker] has taken.
	drained() store.Statement

	// over reports whether the wait of a saga has ended: its time has come, or it was woken. at is the time in its record.
	over(ctx context.Context, id store.ID, at time.Time) (bool, error)

	// look returns at most n due sagas. Half of the first few sagas belong to different definitions and tenants, in turn.
	look(ctx context.Context, n, few int) ([]listed, error)

	// since returns the time since which a saga is due, or the zero time if it is not due.
	since(ctx context.Context, id store.ID) (time.Time, error)

	// forget deletes the row of a saga that is stuck or has ended. at is the result of since before the record was read, so a
	// later wake is not deleted.
	forget(ctx context.Context, id store.ID, at time.Time) error

	// push delays the next look at a saga that a node is running.
	push(ctx context.Context, id store.ID) error
}

// listed is a saga in a list.
type listed struct {
	store.ID

	name string // of its definition
}

// dueTable is the due of a store with tables: the table once_saga_due.
type dueTable struct {
	db    sqlplane.Database
	names []string // the names of the definitions

	put, delete, deleteAt, pushed, passed, oldest, each, drain string

	mu    sync.Mutex
	after map[string]string // by the name of the definition: the scope of the tenant that was served last
	first int               // the index in names of the definition that was served first
}

func newDueTable(db sqlplane.Database, names []string) *dueTable {
	d := db.Dialect()
	text := func(s string) string { return dialect.Text(d, s) }
	t := &dueTable{db: db, names: names, after: map[string]string{}}
	// An existing row is a wake that no run has seen, or the start. Then the saga is due now, whatever time is given.
	t.put = text("insert into once_saga_due (scope, KEY, name, due_at) values (?, ?, ?, AGO(?)) UPSERT(scope, KEY) due_at = NOW")
	t.delete, t.deleteAt = free(d, "", ""), free(d, " and due_at = ?", "")
	t.pushed = free(d, " and due_at <= NOW", "due_at = AGO(?)")
	t.passed = text("select due_at from once_saga_due where scope = ? and KEY = ? and due_at <= NOW")
	each := "select * from (select scope, KEY, name from once_saga_due where name = ? and due_at <= NOW order by due_at limit ?) as d"
	t.oldest = text(strings.Join(repeat(each, len(names)), " union all "))
	t.each = text(inTurn(len(names)))
	t.drain = drains[d]
	return t
}

// inTurn returns the statement of [dueTable.fair] for this number of names.
func inTurn(names int) string {
	var turns, found []string
	for i := range names {
		turn := strings.NewReplacer("TURN", "t"+strconv.Itoa(i), "NAME", strconv.Itoa(i)).Replace
		turns = append(turns, turn("TURN (scope, n) as (select min(scope), 1 from once_saga_due where name = ? and scope > ?"+
			" union all select (select min(d.scope) from once_saga_due d where d.name = ? and d.scope > TURN.scope), TURN.n + 1 from TURN where TURN.scope is not null and TURN.n < ?)"))
		found = append(found, turn("select NAME, TURN.n, TURN.scope,"+
			" coalesce((select d.KEY from once_saga_due d where d.name = ? and d.scope = TURN.scope and d.due_at <= NOW order by d.due_at limit 1), '')"+
			" from TURN where TURN.scope is not null"))
	}
	return "with recursive " + strings.Join(turns, ", ") + " " + strings.Join(found, " union all ") + " order by 1, 2"
}

// free returns the statement that frees the row of a saga: an UPDATE with the SET clause set, or a DELETE if set is empty. It
// applies only if the condition more holds. It skips a row that another transaction has locked: that transaction wakes the
// saga and may stay open for a long time, and then its row ends the next wait. The rows are selected with a limit, because
// MySQL does not change a table that a sub-select reads directly.
func free(d sqlplane.Dialect, more, set string) string {
	row := "(select scope, KEY from once_saga_due where scope = ? and KEY = ?" + more + " limit 1 FOR UPDATE SKIP LOCKED)"
	const joined = " free straight_join once_saga_due d force index (primary) on d.scope = free.scope and d.KEY = free.KEY"
	const among = " where (scope, KEY) in (select free.scope, free.KEY from free)"
	switch {
	case d == sqlplane.MySQL && set == "":
		return dialect.Text(d, "delete d from "+row+joined)
	case d == sqlplane.MySQL:
		return dialect.Text(d, "update "+row+joined+" set d."+set)
	case set == "":
		return dialect.Text(d, "with free as "+row+" delete from once_saga_due"+among)
	}
	return dialect.Text(d, "with free as "+row+" update once_saga_due set "+set+among)
}

// drains contains the statements that delete the rows of all sagas that a [upkeep.Taker] has taken. They use the primary key, and
// skip locked rows: see free.
var drains = map[sqlplane.Dialect]string{
	sqlplane.PostgreSQL: "delete from once_saga_due d using (select f.scope, f.key from taken t join once_saga_due f on f.scope = t.scope and f.key = t.key" +
		" for update of f skip locked) free where d.scope = free.scope and d.key = free.key",
	sqlplane.MySQL: "delete d from (select f.scope, f.`key` from taken t straight_join once_saga_due f force index (primary) on f.scope = t.scope and f.`key` = t.`key`" +
		" limit 100000 for update skip locked) free straight_join once_saga_due d force index (primary) on d.scope = free.scope and d.`key` = free.`key`",
	sqlplane.SQLite: "delete from once_saga_due where (scope, key) in (select t.scope, t.key from taken t)",
}

// dueOf returns the due for a caller without definitions.
func dueOf(ops store.Operations) due {
	if db, ok := store.As[sqlplane.Database](ops); ok {
		return newDueTable(db, nil)
	}
	return dueRecords{ops: ops}
}

func repeat(s string, n int) (list []string) {
	for range n {
		list = append(list, s)
	}
	return list
}

// lock returns the lock name of a saga's row, by which a store sorts its writes.
func lock(id store.ID) string { return "saga/due/" + id.Scope + "/" + id.Key }

func (t *dueTable) wait(id store.ID, name string, after time.Duration) []store.Statement {
	return []store.Statement{{SQL: t.put, Args: []any{id.Scope, id.Key, name, -after.Microseconds()}, Locks: lock(id)}}
}

func (t *dueTable) wake(id store.ID, name string) []store.Statement { return t.wait(id, name, 0) }

func (t *dueTable) drop(id store.ID) []store.Statement {
	return []store.Statement{{SQL: t.delete, Args: []any{id.Scope, id.Key}, Locks: lock(id)}}
}

func (t *dueTable) drained() store.Statement {
	return store.Statement{SQL: t.drain}
}

func (t *dueTable) since(ctx context.Context, id store.ID) (at time.Time, err error) {
	err = t.db.Pool().Query(ctx, store.Statement{SQL: t.passed, Args: []any{id.Scope, id.Key}}, func(row sqlplane.Row) error {
		return row.Scan((*dialect.Time)(&at))
	})
	return at, err //nolint:wrapcheck // it is of the store
}

func (t *dueTable) forget(ctx context.Context, id store.ID, at time.Time) error {
	_, err := t.db.Pool().Exec(ctx, store.Statement{SQL: t.deleteAt, Args: []any{id.Scope, id.Key, dialect.StoredTime(t.db.Dialect(), at)}})
	return err //nolint:wrapcheck // it is of the store
}

func (t *dueTable) push(ctx context.Context, id store.ID) error {
	_, err := t.db.Pool().Exec(ctx, store.Statement{SQL: t.pushed, Args: []any{id.Scope, id.Key, -time.Second.Microseconds()}})
	return err //nolint:wrapcheck // it is of the store
}

// over asks the database, because the clocks of processes differ.
func (t *dueTable) over(ctx context.Context, id store.ID, _ time.Time) (bool, error) {
	at, err := t.since(ctx, id)
	return !at.IsZero(), err
}

// look returns the oldest due sagas. If more sagas are due than n, it also selects one saga of each tenant in turn, so that a
// tenant with many sagas does not delay other tenants.
func (t *dueTable) look(ctx context.Context, n, few int) ([]listed, error) {
	if len(t.names) == 0 {
		return nil, nil
	}
	var args []any
	for _, name := range t.names {
		args = append(args, name, int64(n))
	}
	oldest, err := t.list(ctx, t.oldest, args...)
	rand.Shuffle(len(oldest), func(i, j int) { oldest[i], oldest[j] = oldest[j], oldest[i] }) // other nodes see the same list, and take only some of it
	// All due sagas fit into the list, so no tenant is delayed.
	if err != nil || len(oldest) < n {
		return oldest, err
	}
	list, err := t.fair(ctx, (few+1)/2)
	if err != nil {
		return nil, err
	}
	for _, id := range oldest {
		if !slices.Contains(list, id) {
			list = append(list, id)
		}
	}
	return list[:min(n, len(list))], nil
}

// fair returns one due saga of each of the next n tenants, of each definition in turn. It reads one or two rows for each.
func (t *dueTable) fair(ctx context.Context, n int) (list []listed, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var args []any
	for _, name := range t.names {
		args = append(args, name, t.after[name], name, int64(n))
	}
	for _, name := range t.names {
		args = append(args, name)
	}
	found := make([][]store.ID, len(t.names)) // an ID without a key means that the tenant has no due saga
	err = t.db.Pool().Query(ctx, store.Statement{SQL: t.each, Args: args}, func(row sqlplane.Row) error {
		var id store.ID
		var name, nth int64
		err := row.Scan(&name, &nth, &id.Scope, &id.Key)
		found[name] = append(found[name], id)
		return err
	})
	if err != nil {
		return nil, err //nolint:wrapcheck // it is of the store
	}
	// The first definition changes each time, because n may be smaller than the number of definitions.
	t.first = (t.first + 1) % len(t.names)
	for nth := range n {
		for i := range t.names {
			of := (t.first + i) % len(t.names)
			switch ids := found[of]; {
			case len(list) == n:
			case nth < len(ids):
				t.after[t.names[of]] = ids[nth].Scope
				if ids[nth].Key != "" {
					list = append(list, listed{ids[nth], t.names[of]})
				}
			default: // the list of tenants is at its end, so the next look begins at the first tenant
				t.after[t.names[of]] = ""
			}
		}
	}
	return list, nil
}

func (t *dueTable) list(ctx context.Context, sql string, args ...any) (list []listed, err error) {
	err = t.db.Pool().Query(ctx, store.Statement{SQL: sql, Args: args}, func(row sqlplane.Row) error {
		var s listed
		err := row.Scan(&s.Scope, &s.Key, &s.name)
		list = append(list, s)
		return err
	})
	return list, err
}

// dueRecords is the due of a store without tables. It reads the records of all waiting sagas.
type dueRecords struct {
	ops   store.Operations
	names map[string]*definition
}

func (dueRecords) wait(store.ID, string, time.Duration) []store.Statement { return nil }
func (dueRecords) wake(store.ID, string) []store.Statement                { return nil }
func (dueRecords) drop(store.ID) []store.Statement                        { return nil }
func (dueRecords) drained() store.Statement                               { return store.Statement{} }
func (dueRecords) since(context.Context, store.ID) (time.Time, error)     { return time.Now(), nil }
func (dueRecords) forget(context.Context, store.ID, time.Time) error      { return nil }
func (dueRecords) push(context.Context, store.ID) error                   { return nil }

func (dueRecords) over(_ context.Context, _ store.ID, at time.Time) (bool, error) {
	return !time.Now().Before(at), nil
}

func (d dueRecords) look(ctx context.Context, n, _ int) (list []listed, err error) {
	err = eachIdle(ctx, d.ops, store.StateWaiting, func(e upkeep.Entry) (bool, error) {
		// Another runner has this definition.
		if d.names[e.Name] == nil {
			return true, nil
		}
		rec, err := d.ops.Read(ctx, e.ID)
		if err != nil {
			return false, err //nolint:wrapcheck // it is of the store
		}
		if s, err := decodeSaved(rec); err == nil && rec.State == store.StateWaiting && !time.Now().Before(s.Due) {
			list = append(list, listed{e.ID, e.Name})
		}
		return len(list) < n, nil
	})
	return list, err
}

// eachIdle calls each for the sagas in a state that no node runs, until each returns false.
func eachIdle(ctx context.Context, ops store.Operations, state store.State, each func(upkeep.Entry) (more bool, err error)) error {
	lister, ok := store.As[upkeep.Lister](ops)
	if !ok {
		return nil
	}
	const limit = 100
	for page := (upkeep.Listing{Limit: limit, Due: true, State: state}).WithPrefix(string(owner.Saga)); ; {
		list, next, err := lister.Unfinished(ctx, page)
		if err != nil {
			return err //nolint:wrapcheck // it is of the store
		}
		for _, e := range list {
			if more, err := each(e); err != nil || !more {
				return err
			}
		}
		if page.After = next; next.IsZero() {
			return nil
		}
	}
}
