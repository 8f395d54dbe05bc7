package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// failing is a statement that fails, with the error that it must return.
type failing struct {
	name string
	st   store.Statement
	kind store.Kind
	is   error
}

// failures returns statements that fail if a row with this key exists.
func (p *plane[TX]) failures(key string) []failing {
	many := p.insert(key + "many")
	many.Rows = 2
	return []failing{
		{"Duplicate", p.insert(key), store.KindOther, sqlplane.ErrDuplicate},
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

// testSQLErrors proves that a failed statement is not applied, and that its error says why.
func testSQLErrors[TX any](t *testing.T, p *plane[TX]) {
	key := once.NewKey()
	p.must(t, p.db.Pool(), p.insert(key))
	for _, f := range p.failures(key) {
		t.Run(f.name, func(t *testing.T) {
			_, err := p.db.Pool().Exec(bounded(t), f.st)
			f.check(t, err)
			f.check(t, p.db.Pool().Append(bounded(t), f.st))
			f.check(t, p.db.Pool().Query(bounded(t), f.st, func(sqlplane.Row) error { return nil }))
			p.wantRows(t, key, 1)
		})
	}
}

// testSQLEach proves that an error of each is returned unchanged, and that the transaction stays usable.
func testSQLEach[TX any](t *testing.T, p *plane[TX]) {
	enough := errors.New("enough")
	p.runners(t, func(t *testing.T, r sqlplane.Runner) {
		key := once.NewKey()
		for i := range 100 {
			p.must(t, r, p.insert(fmt.Sprintf("%s %d", key, i)))
		}
		for range 3 {
			seen := 0
			query := p.text("select KEY from storetest_row where KEY >= ? and KEY < ?", key, key+"~")
			query.Rows = 100
			err := r.Query(bounded(t), query, func(sqlplane.Row) error { seen++; return enough })
			if err != enough || seen != 1 { //nolint:errorlint // it must be the same value
				t.Errorf("the query has returned %v after %d rows, want the error of the callback after one row", err, seen)
			}
		}
		p.must(t, r, p.insert(key+" later"))
		for range 20 { // more often than the pool has connections, so a leak shows
			func() {
				defer func() {
					if recover() == nil {
						t.Error("the panic was swallowed")
					}
				}()
				_ = r.Query(bounded(t), p.text("select 1"), func(sqlplane.Row) error { panic("boom") })
			}()
		}
		if n := p.countOn(t, r, key); n != 101 {
			t.Errorf("%d rows, want 101", n)
		}
	})
}

// testSQLCancelled proves that a statement whose context has ended is not applied, and that its transaction is not
// committed without it.
func testSQLCancelled[TX any](t *testing.T, p *plane[TX]) {
	over, cancel := context.WithCancel(bounded(t))
	cancel()
	for name, call := range map[string]func(r sqlplane.Runner, st store.Statement) error{
		"Exec": func(r sqlplane.Runner, st store.Statement) error { _, err := r.Exec(over, st); return err },
		"Query": func(r sqlplane.Runner, st store.Statement) error {
			return r.Query(over, st, func(sqlplane.Row) error { return nil })
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
				t.Error("the transaction was committed without its cancelled statement")
			}
			if p.joins {
				c := p.own(t)
				r = p.db.On(c.tx)
				p.must(t, r, p.insert(key))
				if err := call(r, p.insert(key+"b")); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				if err := c.end(true); err == nil {
					t.Error("the caller's transaction was committed without its cancelled statement")
				}
				c = p.own(t)
				if err := call(p.db.On(c.tx), p.insert(key)); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				if err := c.end(true); err == nil {
					t.Error("the caller's transaction was committed without its first statement, which was cancelled")
				}
				p.wantEffects(t, c.key, 0)
			}
			p.wantRows(t, key, 0)
			p.wantState(t, id, store.StateAbsent)
		})
	}
}
