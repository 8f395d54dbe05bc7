package operate_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/store/sqlstore"
)

// TestForgetNothingHalf fails every call that forgetting makes of the driver, before
// and after it was done, until there is none left: all of it is there or nothing,
// and the audit says which.
func TestForgetNothingHalf(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onSQL(t, func(t *testing.T, g *testDB) {
		plain, err := sql.Open(g.Driver(), g.DSN)
		must(t, err)
		defer func() { _ = plain.Close() }()
		for _, applied := range []bool{false, true} {
			lost := 0
			for n := 1; ; n++ {
				g.exec(t, "delete from once_operation")
				g.exec(t, "delete from once_attempt")
				g.exec(t, "delete from once_audit")
				g.done(t, once.Config{}, "s", "k")
				before := g.leftovers(t, "s")
				f := &faults{applied: applied}
				db := sqlstore.OpenDB(g.dialect, faultyConnector{plain.Driver(), g.DSN, f})
				s, err := sqlstore.New(t.Context(), db, sqlstore.Config{})
				must(t, err)
				f.count, f.at = 0, n
				told := cache{}
				_, err = operate.NewKeys(s, told).Forget(t.Context(), ada, forgetK)
				must(t, db.Close())
				left, audit := g.leftovers(t, "s"), g.count(t, "select count(*) from once_audit")
				switch {
				case left == before && audit == 0 && err != nil:
				case left == 0 && audit == 1:
					if err != nil {
						lost++
					}
					if err != nil && store.KindOf(err) != store.KindLost {
						t.Errorf("call %d: applied in spite of %v", n, err)
					}
					if !told["s k"] {
						t.Errorf("call %d: applied with %v, and no cache was told", n, err)
					}
				default:
					t.Errorf("call %d (%s), applied %v: %d of %d are left, %d entries, %v", n, f.last, applied, left, before, audit, err)
				}
				if f.count < n { // there was no such call
					if err != nil || n < 6 {
						t.Errorf("%d calls, %v", n-1, err)
					}
					break
				}
				if err != nil && !errors.Is(err, errFault) { // nil: a connection that had not been used yet was replaced
					t.Fatal(err)
				}
			}
			if want := map[bool]int{true: 1}[applied]; lost != want { // the answer to COMMIT
				t.Errorf("applied %v: %d runs have committed and failed, want %d", applied, lost, want)
			}
		}
	})
}

// cache notes what it was told of.
type cache map[string]bool

func (c cache) InvalidateCache(_ context.Context, scope, key string) error {
	c[scope+" "+key] = true
	return nil
}

// ada has been asked.
var ada = operate.By{Who: "ada", Reason: "asked"}

var forgetK = operate.ForgetRequest{Scope: "s", Key: "k"}

// TestForgetNothingHalfOnPgx cuts the connection before everything that is sent and before every
// answer is read, until there is nothing left to cut.
func TestForgetNothingHalfOnPgx(t *testing.T) {
	t.Parallel()
	g := newTestDB(t, harness.Pgx)
	for name, cut := range map[string]struct {
		before func(*faultnet.Wire, int64, func(*faultnet.Conn))
		count  func(faultnet.Counts) int64
		lost   int // runs that have committed and failed
	}{
		"sent":     {(*faultnet.Wire).BeforeWrite, func(c faultnet.Counts) int64 { return c.Writes }, 0},
		"received": {(*faultnet.Wire).BeforeRead, func(c faultnet.Counts) int64 { return c.Reads }, 1}, // the answer to COMMIT
	} {
		lost := 0
		for n := int64(1); ; n++ {
			g.exec(t, "delete from once_operation")
			g.exec(t, "delete from once_attempt")
			g.exec(t, "delete from once_audit")
			g.done(t, once.Config{}, "s", "k")
			before := g.leftovers(t, "s")
			wire := new(faultnet.Wire)
			cfg, err := pgxpool.ParseConfig(g.DSN)
			must(t, err)
			cfg.MaxConns, cfg.ConnConfig.DialFunc = 1, wire.DialContext
			cfg.ConnConfig.RuntimeParams["application_name"] = "forget"
			cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false } // whatever time has passed, the same is sent
			pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
			must(t, err)
			operator := operate.NewKeys(pgxstore.New(pool, pgxstore.Config{}))
			_, err = operator.Now(t.Context())
			must(t, err)
			wire.Reset()
			cut.before(wire, n, faultnet.CloseConn)
			_, err = operator.Forget(t.Context(), ada, forgetK)
			pool.Close()
			for g.count(t, "select count(*) from pg_stat_activity where application_name = 'forget'") > 0 { // what was sent may yet be done
				<-time.After(time.Millisecond)
			}
			left, audit := g.leftovers(t, "s"), g.count(t, "select count(*) from once_audit")
			switch {
			case left == before && audit == 0 && err != nil:
			case left == 0 && audit == 1:
				if err != nil {
					lost++
				}
				if err != nil && store.KindOf(err) != store.KindLost {
					t.Errorf("%s %d: applied in spite of %v", name, n, err)
				}
			default:
				t.Errorf("%s %d: %d of %d are left, %d entries, %v", name, n, left, before, audit, err)
			}
			if cut.count(wire.Counts()) < n { // there was nothing to cut
				if err != nil || n < 6 {
					t.Errorf("%s %d: %v", name, n, err)
				}
				break
			}
		}
		if lost != cut.lost {
			t.Errorf("%s: %d runs have committed and failed, want %d", name, lost, cut.lost)
		}
	}
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

func (c *faultyConn) PrepareContext(ctx context.Context, query string) (stmt driver.Stmt, err error) {
	err = c.f.call("prepare", func() error {
		stmt, err = c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query)
		return err
	})
	if err != nil {
		if stmt != nil {
			_ = stmt.Close()
		}
		return nil, err
	}
	return &faultyStmt{stmt, c}, nil
}

// faultyStmt is a statement that stays prepared: it fails as one that does not.
type faultyStmt struct {
	driver.Stmt
	conn *faultyConn
}

func (s *faultyStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (r driver.Result, err error) {
	err = s.conn.f.call("exec", func() error {
		r, err = s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
		return err
	})
	return r, err
}

func (s *faultyStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.conn.query(func() (driver.Rows, error) { return s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args) })
}

// CheckNamedValue lets the driver below convert, if it wants to.
func (s *faultyStmt) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := s.Stmt.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return s.conn.CheckNamedValue(v)
}

func (c *faultyConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (r driver.Result, err error) {
	err = c.f.call("exec", func() error {
		r, err = c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
		return err
	})
	return r, err
}

func (c *faultyConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.query(func() (driver.Rows, error) { return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args) })
}

func (c *faultyConn) query(do func() (driver.Rows, error)) (rows driver.Rows, err error) {
	err = c.f.call("query", func() error {
		rows, err = do()
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
