package storetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/ability"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// testSQLHandler proves that statements in a handler's transaction are committed or rolled back with it, and count as the
// handler's own. A statement that has failed must prevent the commit.
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
		if c, ok := store.As[ability.Counter](txn); ok && c.Statements() != 4 {
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

// testSQLOwn proves the same in a transaction that the caller has opened.
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
				t.Error("the transaction was committed, although a statement had failed")
			}
			p.wantRows(t, c.key, 0)
			p.wantEffects(t, c.key, 0)
			p.wantRows(t, key, 1)
		})
	}
}

// testSQLJoin proves that a failed Join undoes its own statements, and nothing else.
func testSQLJoin[TX any](t *testing.T, p *plane[TX]) {
	if !p.joins {
		return
	}
	e := p.engine(p.s, once.Config{})
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

// testSQLSavepoint proves that the rollback of a savepoint undoes the statements that were run and appended under it, and clears
// their errors.
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

// testSQLAppend proves that appended statements commit with the operation or not at all. A store that delays them until
// the commit must send them in the order of their Locks.
func testSQLAppend[TX any](t *testing.T, p *plane[TX]) {
	// numbered inserts a row with the number of rows before it.
	numbered := func(key, locks string) store.Statement {
		st := p.text("insert into storetest_row (KEY, n) select ?, count(*) from storetest_row where KEY >= ? and KEY < ?", key+locks, key, key+"~")
		st.Locks, st.Rows = locks, 1
		return st
	}
	inOrder := func(t *testing.T, key string) (names []string) {
		query := p.text("select KEY from storetest_row where KEY >= ? and KEY < ? order by n", key, key+"~")
		err := p.db.Pool().Query(bounded(t), query, func(row sqlplane.Row) error {
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
		case 0: // the store delays the statements until the commit
		case len(locks):
			want = locks
		default:
			t.Errorf("%d of %d statements were sent", n, len(locks))
		}
		p.wantRows(t, id.Key, 0)
		if err := txn.Commit(bounded(t), done(id, "r")); err != nil {
			t.Fatal(err)
		}
		if got := inOrder(t, id.Key); !slices.Equal(got, want) {
			t.Errorf("sent in the order %q, want %q", got, want)
		}
	})
	t.Run("Writes", func(t *testing.T) { // the writes of a change
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
		t.Run("Fails/"+f.name, func(t *testing.T) { // they fail at once or at the commit, and nothing is applied
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

// testSQLWithin proves that Within commits or rolls back a transaction of its own.
func testSQLWithin[TX any](t *testing.T, p *plane[TX]) {
	failed := errors.New("failed")
	levels := p.Isolations
	for _, level := range levels {
		key := once.NewKey()
		runs := 0
		err := p.db.Within(bounded(t), level, func(ctx context.Context, r sqlplane.Runner) error {
			runs++
			if _, err := r.Exec(ctx, p.insert(key)); err != nil {
				return err
			}
			p.wantRows(t, key, 0)
			return r.Append(ctx, p.insert(key+"b"))
		})
		if err != nil || runs != 1 {
			t.Errorf("isolation %d: Within has returned %v after %d runs", level, err, runs)
		}
		p.wantRows(t, key, 2)
	}
	key := once.NewKey()
	insert := func(ctx context.Context, r sqlplane.Runner) {
		if _, err := r.Exec(ctx, p.insert(key)); err != nil {
			t.Error(err)
		}
		if err := r.Append(ctx, p.insert(key+"b")); err != nil {
			t.Error(err)
		}
	}
	err := p.db.Within(bounded(t), store.DefaultIsolation, func(ctx context.Context, r sqlplane.Runner) error { insert(ctx, r); return failed })
	if err != failed { //nolint:errorlint // it must be the same value
		t.Errorf("Within has returned %v, want the error of fn", err)
	}
	p.wantRows(t, key, 0)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = p.db.Within(bounded(t), store.DefaultIsolation, func(ctx context.Context, r sqlplane.Runner) error { insert(ctx, r); panic("boom") })
	}()
	p.wantRows(t, key, 0)
	other := once.NewKey()
	p.must(t, p.db.Pool(), p.insert(other))
	for _, f := range p.failures(other) {
		err := p.db.Within(bounded(t), store.DefaultIsolation, func(ctx context.Context, r sqlplane.Runner) error {
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
	err = p.db.Within(over, store.DefaultIsolation, func(context.Context, sqlplane.Runner) error {
		t.Error("fn was called, although the context had ended")
		return nil
	})
	wantKind(t, err, store.KindUnavailable)
}

// testSQLConcurrent proves that several callers can use Pool at the same time.
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
	err := p.db.Pool().Query(bounded(t), p.text("select n from storetest_row where KEY = ?", key), func(row sqlplane.Row) error { return row.Scan(&n) })
	if err != nil || n != callers*each {
		t.Errorf("%d, %v, want %d", n, err, callers*each)
	}
}
