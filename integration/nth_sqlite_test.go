package integration

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"modernc.org/sqlite"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

// tripwire is a driver of SQLite that counts calls, and whose N-th fails.
type tripwire struct {
	driver.Connector

	mu    sync.Mutex
	fault fault
	left  int
}

// Faults of SQLite are those that have a code.
func (w *tripwire) arm(n int, f fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault, w.left = f, n
}

func (w *tripwire) struck() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	struck := w.left == 0
	w.left = 0
	return struck
}

func (w *tripwire) due() (f fault, now bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left == 0 {
		return f, false
	}
	w.left--
	return w.fault, w.left == 0
}

// again does not count a call that found the file busy: how often it is made depends on
// the time that it takes.
func (w *tripwire) again() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left > 0 {
		w.left++
	}
}

const sqliteBusy = 5

func (w *tripwire) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := w.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &tripConn{sqliteConn: c.(sqliteConn), wire: w}, nil
}

// sqliteConn is what a connection of the driver can do.
type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

type tripConn struct {
	sqliteConn
	wire  *tripwire
	stmts []*tripStmt
	gone  bool
}

func (c *tripConn) IsValid() bool { return !c.gone && c.sqliteConn.IsValid() }

func (c *tripConn) Close() error {
	if c.gone {
		return nil
	}
	return c.sqliteConn.Close()
}

func (c *tripConn) ResetSession(ctx context.Context) error {
	if c.gone {
		return driver.ErrBadConn
	}
	return c.sqliteConn.ResetSession(ctx)
}

// trip makes a call, or has it fail.
func (c *tripConn) trip(call func() error) error {
	if c.gone {
		return driver.ErrBadConn
	}
	f, now := c.wire.due()
	if !now {
		err := call()
		if e := (*sqlite.Error)(nil); errors.As(err, &e) && e.Code()&0xff == sqliteBusy {
			c.wire.again()
		}
		return err
	}
	if f.meddle != nil {
		f.meddle()
		return call()
	}
	if f.lose { // it is carried out
		_ = call()
	}
	if f.raise != "" { // what the database does of its own accord
		_, _ = c.sqliteConn.ExecContext(context.Background(), f.raise, nil)
	}
	if f.cut {
		for _, s := range c.stmts { // a connection with open statements keeps its locks
			_ = s.sqliteStmt.Close()
		}
		c.gone = true
		_ = c.sqliteConn.Close()
		return driver.ErrBadConn
	}
	return sqliteError(f.name)
}

func (c *tripConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (r driver.Result, err error) {
	err = c.trip(func() (err error) { r, err = c.sqliteConn.ExecContext(ctx, query, args); return err })
	return r, err
}

func (c *tripConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (r driver.Rows, err error) {
	err = c.trip(func() (err error) { r, err = c.sqliteConn.QueryContext(ctx, query, args); return err })
	if err != nil && r != nil {
		_ = r.Close()
		r = nil
	}
	return r, err
}

// PrepareContext is not tripped, since the guard runs what cannot be prepared all the same; what is prepared is, each time that it runs.
func (c *tripConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if c.gone {
		return nil, driver.ErrBadConn
	}
	base, err := c.sqliteConn.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	s := &tripStmt{base.(sqliteStmt), c}
	c.stmts = append(c.stmts, s)
	return s, nil
}

// sqliteStmt is what a statement of the driver can do.
type sqliteStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

type tripStmt struct {
	sqliteStmt
	conn *tripConn
}

func (s *tripStmt) Close() error {
	if s.conn.gone { // it has gone with its connection
		return nil
	}
	s.conn.stmts = slices.DeleteFunc(s.conn.stmts, func(other *tripStmt) bool { return other == s })
	return s.sqliteStmt.Close()
}

func (s *tripStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (r driver.Result, err error) {
	err = s.conn.trip(func() (err error) { r, err = s.sqliteStmt.ExecContext(ctx, args); return err })
	return r, err
}

func (s *tripStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (r driver.Rows, err error) {
	err = s.conn.trip(func() (err error) { r, err = s.sqliteStmt.QueryContext(ctx, args); return err })
	if err != nil && r != nil {
		_ = r.Close()
		r = nil
	}
	return r, err
}

// sqliteError has a result code as its first word.
type sqliteError string

func (e sqliteError) Error() string { return "raised: " + string(e) }

func (e sqliteError) Code() (code int) {
	_, _ = fmt.Sscan(string(e), &code)
	return code
}

// sqliteFaults are those that a file can meet at any call. When the disk is full, or
// fails, SQLite may take the statement back, or all of the transaction.
func sqliteFaults() []fault {
	return []fault{
		{name: "5 SQLITE_BUSY"},
		{name: "9 SQLITE_INTERRUPT"},
		{name: "13 SQLITE_FULL"},
		{name: "13 SQLITE_FULL, all rolled back", raise: "rollback"},
		{name: "778 SQLITE_IOERR_WRITE, all rolled back", raise: "rollback"},
		{name: "1034 SQLITE_IOERR_FSYNC, and it was done", lose: true},
		{name: "connection lost", cut: true},
	}
}

func newNthSQLite(t *testing.T, journal string) *nth {
	t.Helper()
	g, line := sqliteTripped(t, journal)
	return newNth(t, g, line, setup{opens: line.open})
}

// sqliteTripped is a database in a file, and the driver that trips on it.
func sqliteTripped(t *testing.T, journal string) (*testDB, *tripwire) {
	t.Helper()
	g := sqliteTestDB(t, harness.SQLite+"-"+journal, journal)
	g.DSN = strings.Replace(g.DSN, "busy_timeout(30000)", "busy_timeout(100)", 1)
	c, err := sqlite.NewConnector(g.DSN)
	if err != nil {
		t.Fatal(err)
	}
	return g, &tripwire{Connector: c}
}

func (w *tripwire) open() *sql.DB { return sqlstore.OpenDB(sqlplane.SQLite, w) }
