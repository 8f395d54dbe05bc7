package admin

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/admin"
)

// TestForgetNothingHalf fails every call that forgetting makes of the driver, before
// and after it was done, until there is none left: all of it is there or nothing,
// and the audit says which.
func TestForgetNothingHalf(t *testing.T) {
	t.Parallel()
	on(t, func(t *testing.T, g *testDB) {
		plain, err := sql.Open(g.driver, g.dsn)
		must(t, err)
		defer func() { _ = plain.Close() }()
		for _, applied := range []bool{false, true} {
			committed := 0
			for n := 1; ; n++ {
				g.exec(t, "delete from once_operation")
				g.exec(t, "delete from once_attempt")
				g.exec(t, "delete from once_audit")
				g.done(t, once.Config{}, "s", "k")
				before := g.leftovers(t, "s")
				f := &faults{at: n, applied: applied}
				db := sql.OpenDB(faultyConnector{plain.Driver(), g.dsn, f})
				table, err := admin.Open(db, g.dialect)
				must(t, err)
				_, err = table.Forget(t.Context(), admin.ForgetRequest{Scope: "s", Key: "k", Who: "ada", Reason: "asked"})
				must(t, db.Close())
				left, audit := g.leftovers(t, "s"), g.count(t, "select count(*) from once_audit")
				switch {
				case left == before && audit == 0 && err != nil:
				case left == 0 && audit == 1:
					committed++
				default:
					t.Errorf("call %d (%s), applied %v: %d of %d are left, %d entries, %v", n, f.last, applied, left, before, audit, err)
				}
				if err == nil {
					if f.count >= n || n < 6 {
						t.Errorf("no error after %d calls, the %d. was to fail (%s)", f.count, n, f.last)
					}
					break
				}
				if !errors.Is(err, errFault) {
					t.Fatal(err)
				}
			}
			if want := 1; applied && committed != want+1 || !applied && committed != want { // the run that survives, and the lost answer to COMMIT
				t.Errorf("applied %v: %d runs have committed", applied, committed)
			}
		}
	})
}

var errFault = errors.New("a fault")

// faults fails the call with number at, instead of making it or after it was made.
type faults struct {
	at, count int
	applied   bool
	last      string
	meanwhile func() // what others do before the fault is seen; nil: nothing
}

func (f *faults) call(name string, do func() error) error {
	if f.count++; f.count != f.at {
		return do()
	}
	f.last = name
	if f.applied {
		if err := do(); err != nil && err != io.EOF { //nolint:errorlint // drivers return it bare
			return err
		}
	}
	if f.meanwhile != nil {
		f.meanwhile()
	}
	return errFault
}

type faultyConnector struct {
	driver driver.Driver
	dsn    string
	f      *faults
}

func (c faultyConnector) Driver() driver.Driver { return c.driver }

func (c faultyConnector) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.driver.Open(c.dsn)
	return &faultyConn{conn, c.f}, err
}

type faultyConn struct {
	driver.Conn
	f *faults
}

func (c *faultyConn) BeginTx(ctx context.Context, opts driver.TxOptions) (tx driver.Tx, err error) {
	err = c.f.call("begin", func() error {
		tx, err = c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
		return err
	})
	if err != nil && tx != nil {
		_ = tx.Rollback()
	}
	return &faultyTx{tx, c.f}, err
}

func (c *faultyConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (r driver.Result, err error) {
	err = c.f.call("exec", func() error {
		r, err = c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
		return err
	})
	return r, err
}

func (c *faultyConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (rows driver.Rows, err error) {
	err = c.f.call("query", func() error {
		rows, err = c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
		return err
	})
	if err != nil {
		if rows != nil {
			_ = rows.Close()
		}
		return nil, err
	}
	return &faultyRows{rows, c.f}, nil
}

// CheckNamedValue lets the driver below convert, if it wants to.
func (c *faultyConn) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := c.Conn.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

type faultyRows struct {
	driver.Rows
	f *faults
}

func (r *faultyRows) Next(dest []driver.Value) error {
	return r.f.call("next", func() error { return r.Rows.Next(dest) })
}

type faultyTx struct {
	driver.Tx
	f *faults
}

func (t *faultyTx) Commit() error {
	err := t.f.call("commit", t.Tx.Commit)
	if errors.Is(err, errFault) && !t.f.applied {
		_ = t.Rollback() // the connection is gone, and with it the transaction
	}
	return err
}
