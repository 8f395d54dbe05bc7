package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/dialect"
	"github.com/oncelib/once/store"
)

// plane is a store that runs SQL, and a table for it.
type plane[TX any] struct {
	*suite[TX]
	db store.SQL[TX]
}

// testSQL proves that statements of a capability commit with the transaction in which they run, or
// not at all, and that what they say about errors and values is the same on every database.
func testSQL[TX any](t *testing.T, u *suite[TX]) {
	db, ok := store.As[store.SQL[TX]](u.s)
	if !ok {
		return // it keeps its operations elsewhere
	}
	p := &plane[TX]{u, db}
	columns := map[store.Dialect]string{
		store.PostgreSQL: "KEY text primary key, n bigint, data bytea, flag boolean, at timestamptz, made timestamptz",
		store.MySQL:      "KEY varbinary(64) primary key, n bigint, data blob, flag boolean, at bigint, made bigint",
		store.SQLite:     "KEY text primary key, n integer, data blob, flag boolean, at integer, made integer",
	}[db.Dialect()]
	p.must(t, db.Pool(), p.text("create table storetest_row ("+columns+")"))
	for _, c := range []struct {
		name string
		test func(*testing.T, *plane[TX])
	}{
		{"Values", testSQLValues[TX]},
		{"Times", testSQLTimes[TX]},
		{"Dialect", testSQLDialect[TX]},
		{"Locked", testSQLLocked[TX]},
		{"Errors", testSQLErrors[TX]},
		{"Each", testSQLEach[TX]},
		{"Cancelled", testSQLCancelled[TX]},
		{"Handler", testSQLHandler[TX]},
		{"Own", testSQLOwn[TX]},
		{"Join", testSQLJoin[TX]},
		{"Savepoint", testSQLSavepoint[TX]},
		{"Append", testSQLAppend[TX]},
		{"Within", testSQLWithin[TX]},
		{"Concurrent", testSQLConcurrent[TX]},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, p) })
	}
}

// text is a statement in the dialect of the store.
func (p *plane[TX]) text(query string, args ...any) store.Statement {
	return store.Statement{SQL: dialect.Text(p.db.Dialect(), query), Args: args}
}

// insert adds a row. It fails if there is one.
func (p *plane[TX]) insert(key string) store.Statement {
	return p.text("insert into storetest_row (KEY) values (?)", key)
}

// count is how many rows have been committed whose keys begin so.
func (p *plane[TX]) count(t *testing.T, prefix string) (n int) {
	t.Helper()
	return p.countOn(t, p.db.Pool(), prefix)
}

func (p *plane[TX]) countOn(t *testing.T, r store.Runner, prefix string) (n int) {
	t.Helper()
	query := p.text("select count(*) from storetest_row where KEY >= ? and KEY < ?", prefix, prefix+"~")
	if err := r.Query(bounded(t), query, func(row store.Row) error { return row.Scan(&n) }); err != nil {
		t.Fatal("Query:", err)
	}
	return n
}

func (p *plane[TX]) wantRows(t *testing.T, prefix string, want int) {
	t.Helper()
	if n := p.count(t, prefix); n != want {
		t.Errorf("%d rows are committed, want %d", n, want)
	}
}

func (p *plane[TX]) must(t *testing.T, r store.Runner, st store.Statement) (rows int64) {
	t.Helper()
	rows, err := r.Exec(bounded(t), st)
	if err != nil {
		t.Fatalf("Exec %s: %v", st.SQL, err)
	}
	return rows
}

// runners has fn called with every kind of Runner, in a transaction that is committed afterwards.
func (p *plane[TX]) runners(t *testing.T, fn func(t *testing.T, r store.Runner)) {
	t.Run("Pool", func(t *testing.T) { fn(t, p.db.Pool()) })
	t.Run("Within", func(t *testing.T) {
		err := p.db.Within(bounded(t), store.DefaultIsolation, func(_ context.Context, r store.Runner) error {
			fn(t, r)
			return nil
		})
		if err != nil {
			t.Error("Within:", err)
		}
	})
	t.Run("On", func(t *testing.T) {
		id := newID()
		txn := p.begin(t, id)
		fn(t, p.db.On(txn.Tx()))
		if err := txn.Commit(bounded(t), done(id, "r")); err != nil {
			t.Error("Commit:", err)
		}
	})
}

// values are those of a row.
type values struct {
	n    *int64
	data []byte
	flag *bool
	at   time.Time
}

func (p *plane[TX]) insertValues(key string, v values) store.Statement {
	return p.text("insert into storetest_row (KEY, n, data, flag, at) values (?, ?, ?, ?, ?)", key, v.n, v.data, v.flag, dialect.StoredTime(p.db.Dialect(), v.at))
}

func testSQLValues[TX any](t *testing.T, p *plane[TX]) {
	yes, no, most, zero := true, false, int64(1<<63-1), int64(0)
	at := time.Date(2026, 3, 29, 1, 30, 0, 123_000_000, time.UTC)
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	p.runners(t, func(t *testing.T, r store.Runner) {
		prefix := once.NewKey()
		for i, want := range []values{
			{&most, all, &yes, at},
			{&zero, []byte{}, &no, time.UnixMilli(1)},
			{}, // NULL
		} {
			key := fmt.Sprintf("%s Zürich '? $1 %d", prefix, i)
			if n := p.must(t, r, p.insertValues(key, want)); n != 1 {
				t.Errorf("%d rows affected by an insert", n)
			}
			var got values
			var name string
			var isNull bool // drivers read what is empty as nil, too
			rows := 0
			query := p.text("select KEY, n, data, data is null, flag, at from storetest_row where KEY = ?", key)
			query.Rows = 1
			err := r.Query(bounded(t), query, func(row store.Row) error {
				rows++
				return row.Scan(&name, &got.n, &got.data, &isNull, &got.flag, (*dialect.Time)(&got.at))
			})
			if err != nil || rows != 1 {
				t.Fatalf("%d rows, %v", rows, err)
			}
			if name != key || !equal(got.n, want.n) || !equal(got.flag, want.flag) || !got.at.Equal(want.at) ||
				!bytes.Equal(got.data, want.data) || isNull != (want.data == nil) {
				t.Errorf("%+v is read as %+v of %q", want, got, name)
			}
		}
		if n := p.must(t, r, p.text("update storetest_row set n = 7 where KEY >= ? and KEY < ?", prefix, prefix+"~")); n != 3 {
			t.Errorf("%d rows affected by an update of 3", n)
		}
		if n := p.must(t, r, p.text("delete from storetest_row where KEY = ?", prefix)); n != 0 {
			t.Errorf("%d rows affected by a delete of none", n)
		}
	})
}

func equal[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

// testSQLTimes: NOW does not move within a statement, AGO counts from it, and both compare with
// times that the caller has stored.
func testSQLTimes[TX any](t *testing.T, p *plane[TX]) {
	p.runners(t, func(t *testing.T, r store.Runner) {
		key := once.NewKey()
		p.must(t, r, p.text("insert into storetest_row (KEY, at, made) values (?, AGO(?), NOW)", key, time.Hour.Microseconds()))
		var at, made time.Time
		err := r.Query(bounded(t), p.text("select at, made from storetest_row where KEY = ?", key), func(row store.Row) error {
			return row.Scan((*dialect.Time)(&at), (*dialect.Time)(&made))
		})
		if err != nil || made.Sub(at) != time.Hour {
			t.Errorf("AGO is %v before NOW, want 1h: %v", made.Sub(at), err)
		}
		d := p.db.Dialect()
		for _, c := range []struct {
			where string
			arg   any
			want  int64
		}{
			{"at < AGO(?)", (30 * time.Minute).Microseconds(), 1},
			{"at < AGO(?)", (90 * time.Minute).Microseconds(), 0},
			{"at < AGO(?)", (-time.Minute).Microseconds(), 1},
			{"made > AGO(?)", (-time.Minute).Microseconds(), 0},
			{"at < ?", dialect.StoredTime(d, made), 1},
			{"at < ?", dialect.StoredTime(d, at), 0},
		} {
			n := p.must(t, r, p.text("update storetest_row set n = coalesce(n, 0) + 1 where KEY = ? and "+c.where, key, c.arg))
			if n != c.want {
				t.Errorf("%s, %v: %d rows, want %d", c.where, c.arg, n, c.want)
			}
		}
	})
}

// testSQLDialect: KEEP and UPSERT.
func testSQLDialect[TX any](t *testing.T, p *plane[TX]) {
	p.runners(t, func(t *testing.T, r store.Runner) {
		key := once.NewKey()
		for range 3 {
			p.must(t, r, p.text("insert into storetest_row (KEY, n) values (?, ?) UPSERT(KEY) n = storetest_row.n + NEW(n)", key, 10))
		}
		p.must(t, r, p.text("insert into storetest_row (KEY, n) values (?, 1), (?, 2) KEEP(n)", key, key+"b"))
		var got []int64
		err := r.Query(bounded(t), p.text("select n from storetest_row where KEY in (?, ?) order by KEY FOR UPDATE", key, key+"b"), func(row store.Row) error {
			var n int64
			err := row.Scan(&n)
			got = append(got, n)
			return err
		})
		if err != nil || !slices.Equal(got, []int64{30, 2}) {
			t.Errorf("%v, %v, want [30 2]", got, err)
		}
	})
}

// testSQLLocked: SKIP LOCKED leaves out what another transaction has locked.
func testSQLLocked[TX any](t *testing.T, p *plane[TX]) {
	if p.OneWriter {
		return
	}
	prefix := once.NewKey()
	p.must(t, p.db.Pool(), p.insert(prefix+"a"))
	p.must(t, p.db.Pool(), p.insert(prefix+"b"))
	lock := func(r store.Runner, key string) (found []string) {
		query := p.text("select KEY from storetest_row where KEY in (?, ?) FOR UPDATE SKIP LOCKED", prefix+"a", key)
		err := r.Query(bounded(t), query, func(row store.Row) error {
			var key string
			err := row.Scan(&key)
			found = append(found, strings.TrimPrefix(key, prefix))
			return err
		})
		if err != nil {
			t.Error(err)
		}
		return found
	}
	within := func(fn func(r store.Runner)) {
		t.Helper()
		err := p.db.Within(bounded(t), store.ReadCommitted, func(_ context.Context, r store.Runner) error { fn(r); return nil })
		if err != nil {
			t.Error(err)
		}
	}
	within(func(r store.Runner) {
		if got := lock(r, prefix+"a"); !slices.Equal(got, []string{"a"}) {
			t.Errorf("locked %q, want a", got)
		}
		within(func(r store.Runner) {
			if got := lock(r, prefix+"b"); !slices.Equal(got, []string{"b"}) {
				t.Errorf("locked %q besides a, want b", got)
			}
		})
	})
}

// failing is a statement that fails, and what its error must say.
type failing struct {
	name string
	st   store.Statement
	kind store.Kind
	is   error
}

// failures returns statements that fail if there is a row with this key.
func (p *plane[TX]) failures(key string) []failing {
	many := p.insert(key + "many")
	many.Rows = 2
	return []failing{
		{"Duplicate", p.insert(key), store.KindOther, store.ErrDuplicate},
		{"Missing", p.text("delete from storetest_missing"), store.KindUnavailable, store.ErrNotMigrated},
		{"Rows", many, store.KindOther, store.ErrRows},
		{"Syntax", p.text("insert nothing"), store.KindOther, nil},
		{"Argument", p.text("insert into storetest_row (KEY) values (?)", struct{}{}), store.KindOther, nil},
	}
}

func (f failing) check(t *testing.T, err error) {
	t.Helper()
	wantKind(t, err, f.kind)
	if !errors.As(err, new(*store.Error)) || f.is != nil && !errors.Is(err, f.is) {
		t.Errorf("error %v, want one with %v", err, f.is)
	}
}

// testSQLErrors: what fails is not applied, and its error says why.
func testSQLErrors[TX any](t *testing.T, p *plane[TX]) {
	key := once.NewKey()
	p.must(t, p.db.Pool(), p.insert(key))
	for _, f := range p.failures(key) {
		t.Run(f.name, func(t *testing.T) {
			_, err := p.db.Pool().Exec(bounded(t), f.st)
			f.check(t, err)
			f.check(t, p.db.Pool().Append(bounded(t), f.st))
			f.check(t, p.db.Pool().Query(bounded(t), f.st, func(store.Row) error { return nil }))
			p.wantRows(t, key, 1)
		})
	}
}

// testSQLEach: an error of each is returned as it is, and the transaction goes on.
func testSQLEach[TX any](t *testing.T, p *plane[TX]) {
	enough := errors.New("enough")
	p.runners(t, func(t *testing.T, r store.Runner) {
		key := once.NewKey()
		for i := range 100 {
			p.must(t, r, p.insert(fmt.Sprintf("%s %d", key, i)))
		}
		for range 3 {
			seen := 0
			query := p.text("select KEY from storetest_row where KEY >= ? and KEY < ?", key, key+"~")
			query.Rows = 100
			err := r.Query(bounded(t), query, func(store.Row) error { seen++; return enough })
			if err != enough || seen != 1 { //nolint:errorlint // it is the same
				t.Errorf("%v after %d rows, want the error of each after one", err, seen)
			}
		}
		p.must(t, r, p.insert(key+" later"))
		for range 20 { // more often than the pool has connections to lose
			func() {
				defer func() {
					if recover() == nil {
						t.Error("the panic was swallowed")
					}
				}()
				_ = r.Query(bounded(t), p.text("select 1"), func(store.Row) error { panic("boom") })
			}()
		}
		if n := p.countOn(t, r, key); n != 101 {
			t.Errorf("%d rows, want 101", n)
		}
	})
}

// testSQLCancelled: a statement whose context is over is not applied, and what is in its
// transaction is not committed without it.
func testSQLCancelled[TX any](t *testing.T, p *plane[TX]) {
	over, cancel := context.WithCancel(bounded(t))
	cancel()
	for name, call := range map[string]func(r store.Runner, st store.Statement) error{
		"Exec": func(r store.Runner, st store.Statement) error { _, err := r.Exec(over, st); return err },
		"Query": func(r store.Runner, st store.Statement) error {
			return r.Query(over, st, func(store.Row) error { return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			key := once.NewKey()
			err := call(p.db.Pool(), p.insert(key))
			wantKind(t, err, store.KindUnavailable)
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			id := newID()
			txn := p.begin(t, id)
			r := p.db.On(txn.Tx())
			p.must(t, r, p.insert(key))
			if err := call(r, p.insert(key+"b")); !errors.Is(err, context.Canceled) || !errors.As(err, new(*store.Error)) {
				t.Error(err)
			}
			if err := txn.Commit(bounded(t), done(id, "r")); err == nil {
				t.Error("committed without a statement that was cancelled")
			}
			if p.joins {
				c := p.own(t)
				r = p.db.On(c.tx)
				p.must(t, r, p.insert(key))
				if err := call(r, p.insert(key+"b")); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				if err := c.end(true); err == nil {
					t.Error("the caller's transaction is committed without a statement that was cancelled")
				}
				c = p.own(t)
				if err := call(p.db.On(c.tx), p.insert(key)); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				if err := c.end(true); err == nil {
					t.Error("the caller's transaction is committed without its first statement, which was cancelled")
				}
				p.wantEffects(t, c.key, 0)
			}
			p.wantRows(t, key, 0)
			p.wantState(t, id, store.StateAbsent)
		})
	}
}

// testSQLHandler: statements in the transaction of a handler stand and fall with it, count as its
// own, and one that has failed keeps it from being committed.
func testSQLHandler[TX any](t *testing.T, p *plane[TX]) {
	t.Run("Commit", func(t *testing.T) {
		id := newID()
		txn := p.begin(t, id)
		p.must(t, p.db.On(txn.Tx()), p.insert(id.Key))
		p.write(t, txn, id.Key)
		p.must(t, p.db.On(txn.Tx()), p.insert(id.Key+"b"))
		if n := p.countOn(t, p.db.On(txn.Tx()), id.Key); n != 2 {
			t.Errorf("the transaction sees %d rows, want 2", n)
		}
		p.wantRows(t, id.Key, 0)
		if c, ok := store.As[store.Counter](txn); ok && c.Statements() != 4 {
			t.Errorf("%d statements, want 4", c.Statements())
		}
		if err := txn.Commit(bounded(t), done(id, "r")); err != nil {
			t.Fatal(err)
		}
		p.wantRows(t, id.Key, 2)
		p.wantEffects(t, id.Key, 1)
	})
	t.Run("Rollback", func(t *testing.T) {
		id := newID()
		txn := p.begin(t, id)
		p.must(t, p.db.On(txn.Tx()), p.insert(id.Key))
		if err := txn.Rollback(bounded(t)); err != nil {
			t.Fatal(err)
		}
		p.wantRows(t, id.Key, 0)
	})
	t.Run("Ended", func(t *testing.T) {
		id := newID()
		txn := p.begin(t, id)
		r := p.db.On(txn.Tx())
		if err := txn.Rollback(bounded(t)); err != nil {
			t.Fatal(err)
		}
		_, err := r.Exec(bounded(t), p.insert(id.Key))
		wantKind(t, err, store.KindMisused)
		p.wantRows(t, id.Key, 0)
	})
	key := once.NewKey()
	p.must(t, p.db.Pool(), p.insert(key))
	for _, f := range p.failures(key) {
		t.Run("Swallows/"+f.name, func(t *testing.T) {
			id := newID()
			txn := p.begin(t, id)
			p.write(t, txn, id.Key)
			_, err := p.db.On(txn.Tx()).Exec(bounded(t), f.st)
			f.check(t, err)
			_, err = p.db.On(txn.Tx()).Exec(bounded(t), p.insert(id.Key))
			wantKind(t, err, store.KindAborted)
			wantKind(t, txn.Commit(bounded(t), done(id, "r")), store.KindAborted)
			p.wantState(t, id, store.StateAbsent)
			p.wantEffects(t, id.Key, 0)
			p.wantRows(t, id.Key, 0)
			p.wantRows(t, key, 1)
		})
	}
}

// testSQLOwn: the same in a transaction that the caller has opened.
func testSQLOwn[TX any](t *testing.T, p *plane[TX]) {
	if !p.joins {
		return
	}
	for _, commit := range []bool{true, false} {
		c := p.own(t)
		p.must(t, p.db.On(c.tx), p.insert(c.key))
		p.must(t, p.db.On(c.tx), p.insert(c.key+"b"))
		if err := p.db.On(c.tx).Append(bounded(t), p.insert(c.key+"c")); err != nil {
			t.Error(err)
		}
		p.wantRows(t, c.key, 0)
		if err := c.end(commit); err != nil {
			t.Error(err)
		}
		rows, effects := 0, 0
		if commit {
			rows, effects = 3, 1
		}
		p.wantRows(t, c.key, rows)
		p.wantEffects(t, c.key, effects)
	}
	key := once.NewKey()
	p.must(t, p.db.Pool(), p.insert(key))
	for _, f := range p.failures(key) {
		t.Run("Swallows/"+f.name, func(t *testing.T) {
			c := p.own(t)
			r := p.db.On(c.tx)
			p.must(t, r, p.insert(c.key))
			_, err := r.Exec(bounded(t), f.st)
			f.check(t, err)
			if err := c.end(true); err == nil {
				t.Error("committed, although a statement had failed")
			}
			p.wantRows(t, c.key, 0)
			p.wantEffects(t, c.key, 0)
			p.wantRows(t, key, 1)
		})
	}
}

// testSQLJoin: a Join undoes what was run in it, and nothing else.
func testSQLJoin[TX any](t *testing.T, p *plane[TX]) {
	if !p.joins {
		return
	}
	e := once.New(p.s, once.Config{})
	failed := errors.New("failed")
	for _, want := range []error{nil, failed} {
		c, id := p.own(t), newID()
		p.must(t, p.db.On(c.tx), p.insert(c.key))
		_, err := once.Join(bounded(t), e, c.tx, operation(id), func(ctx context.Context, tx TX) (string, error) {
			r := p.db.On(tx)
			if _, err := r.Exec(ctx, p.insert(id.Key)); err != nil {
				return "", err
			}
			if err := r.Append(ctx, p.insert(id.Key+"b")); err != nil {
				return "", err
			}
			if want != nil {
				_, _ = r.Exec(ctx, p.insert(id.Key))
			}
			return "value", want
		})
		if !errors.Is(err, want) {
			t.Errorf("Join: %v, want %v", err, want)
		}
		p.must(t, p.db.On(c.tx), p.insert(c.key+"b"))
		if err := c.end(true); err != nil {
			t.Error(err)
		}
		p.wantRows(t, c.key, 2)
		rows, state := 2, store.StateDone
		if want != nil {
			rows, state = 0, store.StateAbsent
		}
		p.wantRows(t, id.Key, rows)
		p.wantState(t, id, state)
	}
	c, id := p.own(t), newID()
	_, err := once.Join(bounded(t), e, c.tx, operation(id), func(ctx context.Context, tx TX) (string, error) {
		_, _ = p.db.On(tx).Exec(ctx, p.insert(id.Key))
		_, _ = p.db.On(tx).Exec(ctx, p.insert(id.Key))
		return "value", nil
	})
	if once.CodeOf(err) != once.CodeAborted {
		t.Errorf("Join: %v, want %s", err, once.CodeAborted)
	}
	if err := c.end(true); err != nil {
		t.Error(err)
	}
	p.wantRows(t, id.Key, 0)
	p.wantState(t, id, store.StateAbsent)
}

// testSQLSavepoint: a savepoint that is rolled back takes what was run and appended in it, and
// their errors, with it.
func testSQLSavepoint[TX any](t *testing.T, p *plane[TX]) {
	if p.Savepoint == nil {
		return
	}
	for _, fails := range []bool{false, true} {
		for _, keep := range []bool{true, false} {
			if keep && fails {
				continue
			}
			id := newID()
			txn := p.begin(t, id)
			p.must(t, p.db.On(txn.Tx()), p.insert(id.Key))
			if err := p.db.On(txn.Tx()).Append(bounded(t), p.insert(id.Key+"b")); err != nil {
				t.Error(err)
			}
			inner, end := p.Savepoint(bounded(t), t, txn.Tx())
			r := p.db.On(inner)
			p.must(t, r, p.insert(id.Key+"c"))
			if err := r.Append(bounded(t), p.insert(id.Key+"d")); err != nil {
				t.Error(err)
			}
			if fails {
				_, err := r.Exec(bounded(t), p.insert(id.Key))
				p.failures("")[0].check(t, err)
			}
			if err := end(keep); err != nil {
				t.Error(err)
			}
			p.must(t, p.db.On(txn.Tx()), p.insert(id.Key+"e"))
			if err := txn.Commit(bounded(t), done(id, "r")); err != nil {
				t.Errorf("keep %v, fails %v: %v", keep, fails, err)
			}
			want := 3
			if keep {
				want = 5
			}
			p.wantRows(t, id.Key, want)
		}
	}
}

// testSQLAppend: what is appended commits with the operation or not at all, and where it is put
// off until the commit, it is sent in the order of its Locks.
func testSQLAppend[TX any](t *testing.T, p *plane[TX]) {
	// numbered inserts a row that says how many there were before it.
	numbered := func(key, locks string) store.Statement {
		st := p.text("insert into storetest_row (KEY, n) select ?, count(*) from storetest_row where KEY >= ? and KEY < ?", key+locks, key, key+"~")
		st.Locks, st.Rows = locks, 1
		return st
	}
	inOrder := func(t *testing.T, key string) (names []string) {
		query := p.text("select KEY from storetest_row where KEY >= ? and KEY < ? order by n", key, key+"~")
		err := p.db.Pool().Query(bounded(t), query, func(row store.Row) error {
			var name string
			err := row.Scan(&name)
			names = append(names, strings.TrimPrefix(name, key))
			return err
		})
		if err != nil {
			t.Error(err)
		}
		return names
	}
	locks := []string{"c", "", "a", "b"}
	t.Run("Commit", func(t *testing.T) {
		id := newID()
		txn := p.begin(t, id)
		r := p.db.On(txn.Tx())
		for _, l := range locks {
			if err := r.Append(bounded(t), numbered(id.Key, l)); err != nil {
				t.Fatal(err)
			}
		}
		want := []string{"", "a", "b", "c"}
		switch n := p.countOn(t, r, id.Key); n {
		case 0: // it is put off
		case len(locks):
			want = locks
		default:
			t.Errorf("%d of %d are sent", n, len(locks))
		}
		p.wantRows(t, id.Key, 0)
		if err := txn.Commit(bounded(t), done(id, "r")); err != nil {
			t.Fatal(err)
		}
		if got := inOrder(t, id.Key); !slices.Equal(got, want) {
			t.Errorf("sent in the order %q, want %q", got, want)
		}
	})
	t.Run("Writes", func(t *testing.T) { // of a change
		id, swapped := newID(), newID()
		c := done(id, "r")
		s := done(swapped, "r")
		for _, l := range locks {
			c.Writes = append(c.Writes, numbered(id.Key, l))
			s.Writes = append(s.Writes, numbered(swapped.Key, l))
		}
		if err := p.begin(t, id).Commit(bounded(t), c); err != nil {
			t.Fatal(err)
		}
		p.swap(t, s)
		for _, id := range []store.ID{id, swapped} {
			if got, want := inOrder(t, id.Key), []string{"", "a", "b", "c"}; !slices.Equal(got, want) {
				t.Errorf("sent in the order %q, want %q", got, want)
			}
		}
	})
	t.Run("Rollback", func(t *testing.T) {
		id := newID()
		txn := p.begin(t, id)
		if err := p.db.On(txn.Tx()).Append(bounded(t), p.insert(id.Key)); err != nil {
			t.Fatal(err)
		}
		if err := txn.Rollback(bounded(t)); err != nil {
			t.Fatal(err)
		}
		p.wantRows(t, id.Key, 0)
	})
	key := once.NewKey()
	p.must(t, p.db.Pool(), p.insert(key))
	for _, f := range p.failures(key) {
		t.Run("Fails/"+f.name, func(t *testing.T) { // at once or at the commit, but nothing stands
			id := newID()
			txn := p.begin(t, id)
			p.write(t, txn, id.Key)
			appended := p.db.On(txn.Tx()).Append(bounded(t), f.st)
			committed := txn.Commit(bounded(t), done(id, "r"))
			if appended != nil {
				f.check(t, appended)
				wantKind(t, committed, store.KindAborted)
			} else if committed == nil || f.is != nil && !errors.Is(committed, f.is) {
				t.Errorf("Commit: %v, want %v", committed, f.is)
			}
			p.wantState(t, id, store.StateAbsent)
			p.wantEffects(t, id.Key, 0)
			p.wantRows(t, key, 1)
		})
	}
}

// testSQLWithin: a transaction of the capability's own.
func testSQLWithin[TX any](t *testing.T, p *plane[TX]) {
	failed := errors.New("failed")
	levels := p.Isolations
	for _, level := range levels {
		key := once.NewKey()
		runs := 0
		err := p.db.Within(bounded(t), level, func(ctx context.Context, r store.Runner) error {
			runs++
			if _, err := r.Exec(ctx, p.insert(key)); err != nil {
				return err
			}
			p.wantRows(t, key, 0)
			return r.Append(ctx, p.insert(key+"b"))
		})
		if err != nil || runs != 1 {
			t.Errorf("level %d: %v after %d runs", level, err, runs)
		}
		p.wantRows(t, key, 2)
	}
	key := once.NewKey()
	insert := func(ctx context.Context, r store.Runner) {
		if _, err := r.Exec(ctx, p.insert(key)); err != nil {
			t.Error(err)
		}
		if err := r.Append(ctx, p.insert(key+"b")); err != nil {
			t.Error(err)
		}
	}
	err := p.db.Within(bounded(t), store.DefaultIsolation, func(ctx context.Context, r store.Runner) error { insert(ctx, r); return failed })
	if err != failed { //nolint:errorlint // it is the same
		t.Errorf("%v, want the error of fn", err)
	}
	p.wantRows(t, key, 0)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = p.db.Within(bounded(t), store.DefaultIsolation, func(ctx context.Context, r store.Runner) error { insert(ctx, r); panic("boom") })
	}()
	p.wantRows(t, key, 0)
	other := once.NewKey()
	p.must(t, p.db.Pool(), p.insert(other))
	for _, f := range p.failures(other) {
		err := p.db.Within(bounded(t), store.DefaultIsolation, func(ctx context.Context, r store.Runner) error {
			insert(ctx, r)
			_, err := r.Exec(ctx, f.st)
			f.check(t, err)
			return nil // swallowed
		})
		wantKind(t, err, store.KindAborted)
		p.wantRows(t, key, 0)
		p.wantRows(t, other, 1)
	}
	over, cancel := context.WithCancel(bounded(t))
	cancel()
	err = p.db.Within(over, store.DefaultIsolation, func(context.Context, store.Runner) error { t.Error("run, although the context is over"); return nil })
	wantKind(t, err, store.KindUnavailable)
}

// testSQLConcurrent: statements of Pool at one time.
func testSQLConcurrent[TX any](t *testing.T, p *plane[TX]) {
	const callers, each = 4, 25
	key := once.NewKey()
	p.must(t, p.db.Pool(), p.text("insert into storetest_row (KEY, n) values (?, 0)", key))
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range each {
				if _, err := p.db.Pool().Exec(bounded(t), p.text("update storetest_row set n = n + 1 where KEY = ?", key)); err != nil {
					t.Error(err)
				}
				p.count(t, key)
			}
		})
	}
	all.Wait()
	var n int64
	err := p.db.Pool().Query(bounded(t), p.text("select n from storetest_row where KEY = ?", key), func(row store.Row) error { return row.Scan(&n) })
	if err != nil || n != callers*each {
		t.Errorf("%d, %v, want %d", n, err, callers*each)
	}
}
