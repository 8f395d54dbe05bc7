package sqlguard

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
)

// fake is a driver that writes down what reaches it and fails as told. A call is
// written as its kind and its text: "exec UPDATE t", "begin", "commit".
type fake struct {
	mu      sync.Mutex
	calls   []string
	errs    map[string]error // by call
	results map[string][]error
	ctxs    map[string]context.Context
	opens   int
	opts    driver.TxOptions

	minimal bool // offer only what the guard demands
	old     bool // offer only what driver.Conn demands
	oldStmt bool // offer only what driver.Stmt demands
	checks  func(*driver.NamedValue) error
	convert driver.ValueConverter
	inputs  int
}

func newFake() *fake {
	return &fake{
		errs: map[string]error{}, results: map[string][]error{}, ctxs: map[string]context.Context{}, inputs: -1,
	}
}

// call writes a call down and returns the error it is to have.
func (f *fake) call(ctx context.Context, call string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, call)
	f.ctxs[call] = ctx //nolint:fatcontext // remembered, not nested
	return f.errs[call]
}

// failing makes a call fail from now on, or succeed if err is nil.
func (f *fake) failing(call string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errs[call] = err
}

// took returns what reached the driver since it was last asked.
func (f *fake) took() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls
	f.calls = nil
	return calls
}

func (f *fake) ctx(call string) context.Context {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ctxs[call]
}

func (f *fake) Driver() driver.Driver { return f }

func (f *fake) Open(string) (driver.Conn, error) { return f.Connect(context.Background()) }

func (f *fake) Connect(context.Context) (driver.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opens++
	switch {
	case f.old:
		return &oldConn{f}, nil
	case f.minimal:
		return &minimalConn{oldConn{f}}, nil
	}
	return &fakeConn{minimalConn{oldConn{f}}}, nil
}

// oldConn offers no optional interface.
type oldConn struct{ f *fake }

func (*oldConn) Prepare(string) (driver.Stmt, error) { return nil, errDriver }
func (c *oldConn) Close() error                      { return c.f.call(context.Background(), "close") }
func (*oldConn) Begin() (driver.Tx, error)           { return nil, errDriver }

// minimalConn takes contexts.
type minimalConn struct{ oldConn }

// oldStmt offers no optional interface.
type oldStmt struct {
	f     *fake
	query string
}

func (s *oldStmt) Close() error                             { return s.f.call(context.Background(), "stmt close") }
func (s *oldStmt) NumInput() int                            { return s.f.inputs }
func (*oldStmt) Exec([]driver.Value) (driver.Result, error) { return nil, errDriver }
func (*oldStmt) Query([]driver.Value) (driver.Rows, error)  { return nil, errDriver }

// fakeConn offers every optional interface.
type fakeConn struct{ minimalConn }

func (c *minimalConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	c.f.opts = opts
	if err := c.f.call(ctx, "begin"); err != nil {
		return nil, err
	}
	return &fakeTx{c.f}, nil
}

func (c *fakeConn) ExecContext(ctx context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	if err := c.f.call(ctx, "exec "+query); err != nil {
		return nil, err
	}
	return driver.RowsAffected(1), nil
}

func (c *fakeConn) QueryContext(ctx context.Context, query string, _ []driver.NamedValue) (driver.Rows, error) {
	if err := c.f.call(ctx, "query "+query); err != nil {
		return nil, err
	}
	return &fakeRows{f: c.f, results: slices.Clone(c.f.results[query])}, nil
}

func (c *minimalConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if err := c.f.call(ctx, "prepare "+query); err != nil {
		return nil, err
	}
	s := &fakeStmt{oldStmt{c.f, query}}
	switch {
	case c.f.oldStmt:
		return &s.oldStmt, nil
	case c.f.convert != nil:
		return &convertingStmt{*s}, nil
	}
	return s, nil
}

func (c *fakeConn) CheckNamedValue(arg *driver.NamedValue) error {
	if c.f.checks != nil {
		return c.f.checks(arg)
	}
	return driver.ErrSkip
}

func (c *fakeConn) Ping(ctx context.Context) error         { return c.f.call(ctx, "ping") }
func (c *fakeConn) ResetSession(ctx context.Context) error { return c.f.call(ctx, "reset") }
func (*fakeConn) IsValid() bool                            { return true }

type fakeStmt struct{ oldStmt }

func (*fakeStmt) Close() error { return nil }

func (s *fakeStmt) ExecContext(ctx context.Context, _ []driver.NamedValue) (driver.Result, error) {
	return driver.RowsAffected(1), s.f.call(ctx, "stmt exec "+s.query)
}

func (s *fakeStmt) QueryContext(ctx context.Context, _ []driver.NamedValue) (driver.Rows, error) {
	if err := s.f.call(ctx, "stmt query "+s.query); err != nil {
		return nil, err
	}
	return &fakeRows{f: s.f, results: slices.Clone(s.f.results[s.query])}, nil
}

// convertingStmt converts its arguments in the oldest way.
type convertingStmt struct{ fakeStmt }

func (s *convertingStmt) ColumnConverter(int) driver.ValueConverter { return s.f.convert }

type fakeTx struct{ f *fake }

func (t *fakeTx) Commit() error   { return t.f.call(context.Background(), "commit") }
func (t *fakeTx) Rollback() error { return t.f.call(context.Background(), "rollback") }

// fakeRows returns one row of one column for each nil in results, and what else
// is in there as an error. A last element that is errClose fails Close.
type fakeRows struct {
	f       *fake
	results []error
}

func (*fakeRows) Columns() []string { return []string{"n"} }
func (r *fakeRows) Close() error    { return r.f.call(context.Background(), "rows close") }
func (r *fakeRows) Next(dest []driver.Value) error {
	if len(r.results) == 0 {
		return io.EOF
	}
	err := r.results[0]
	r.results = r.results[1:]
	if err == nil {
		dest[0] = int64(1)
	}
	return err
}
func (r *fakeRows) HasNextResultSet() bool { return r.f.errs["next result"] != nil }
func (r *fakeRows) NextResultSet() error   { return r.f.call(context.Background(), "next result") }

// coded is an error with an SQLSTATE.
type coded string

func (c coded) Error() string    { return "SQLSTATE " + string(c) }
func (c coded) SQLState() string { return string(c) }

// resultCode is an error with a result code of SQLite.
type resultCode int //nolint:errname // as an error it is a code

func (c resultCode) Error() string {
	if c == sqliteError {
		return "cannot commit - no transaction is active"
	}
	return "result code"
}
func (c resultCode) Code() int { return int(c) }

// open returns a pool of one connection of the fake.
func open(t testing.TB, f *fake, d Dialect) *sql.DB {
	t.Helper()
	db := sql.OpenDB(Wrap(f, d))
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	return db
}

// begun returns a guarded transaction, with the calls of its beginning taken.
func begun(t testing.TB, f *fake, d Dialect) (*sql.Tx, *Txn) {
	t.Helper()
	txn := new(Txn)
	tx, err := open(t, f, d).BeginTx(txn.Context(t.Context()), nil)
	if err != nil {
		t.Fatal(err)
	}
	f.took()
	return tx, txn
}

func wantCalls(t testing.TB, f *fake, want ...string) {
	t.Helper()
	if got := f.took(); !slices.Equal(got, want) {
		t.Errorf("reached the driver: %s\nwant: %s", strings.Join(got, " | "), strings.Join(want, " | "))
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
