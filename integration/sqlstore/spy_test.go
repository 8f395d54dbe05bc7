package sqlstore

import (
	"context"
	"database/sql/driver"
	"fmt"
	"slices"
	"sync"

	"modernc.org/sqlite"
)

// spy is SQLite's driver, with a hook that sees and changes what passes it.
type spy struct {
	dsn string

	mu     sync.Mutex
	log    []string                // statements that were run, by any connection
	parsed []string                // and those of them that were parsed for that
	before func(text string) error // fails it, and it does not run
	after  func(text string) error // fails it when it has run
}

func (s *spy) Driver() driver.Driver { return &sqlite.Driver{} }

func (s *spy) Connect(context.Context) (driver.Conn, error) {
	base, err := s.Driver().Open(s.dsn)
	if err != nil {
		return nil, err
	}
	return &spyConn{base.(fullConn), s}, nil
}

// bend sets what fails.
func (s *spy) bend(before, after func(string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.after = before, after
}

// take returns how often each of these texts was run since the last time.
func (s *spy) take(texts ...string) (counts []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, text := range texts {
		n := 0
		for _, l := range s.log {
			if l == text {
				n++
			}
		}
		counts = append(counts, n)
	}
	s.log, s.parsed = nil, nil
	return counts
}

// takeParsed returns the texts that were parsed since the last time.
func (s *spy) takeParsed() (texts []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	texts, s.log, s.parsed = s.parsed, nil, nil
	return texts
}

func (s *spy) parse(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parsed = append(s.parsed, text)
}

// endsWith reports whether these texts were the last ones of their kind, in this order.
func (s *spy) endsWith(texts ...string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	var log []string
	for _, l := range s.log {
		if slices.Contains(texts, l) {
			log = append(log, l)
		}
	}
	return len(log) >= len(texts) && slices.Equal(log[len(log)-len(texts):], texts)
}

// run runs a statement under the eyes of the spy.
func (s *spy) run(text string, run func() error) error {
	s.mu.Lock()
	before, after := s.before, s.after
	s.mu.Unlock()
	if before != nil {
		if err := before(text); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.log = append(s.log, text)
	s.mu.Unlock()
	err := run()
	if err == nil && after != nil {
		err = after(text)
	}
	return err
}

// fullConn is all that a connection of the driver can do and the guard may want.
type fullConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
	sqlite.DBStatus
}

type spyConn struct {
	fullConn
	spy *spy
}

func (c *spyConn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (r driver.Result, err error) {
	c.spy.parse(text)
	err = c.spy.run(text, func() error { r, err = c.fullConn.ExecContext(ctx, text, args); return err })
	return r, err
}

func (c *spyConn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (r driver.Rows, err error) {
	c.spy.parse(text)
	err = c.spy.run(text, func() error { r, err = c.fullConn.QueryContext(ctx, text, args); return err })
	return r, err
}

func (c *spyConn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	c.spy.parse(text)
	base, err := c.fullConn.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	return &spyStmt{base.(fullStmt), text, c.spy}, nil
}

type fullStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

type spyStmt struct {
	fullStmt
	text string
	spy  *spy
}

func (s *spyStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (r driver.Result, err error) {
	err = s.spy.run(s.text, func() error { r, err = s.fullStmt.ExecContext(ctx, args); return err })
	return r, err
}

func (s *spyStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (r driver.Rows, err error) {
	err = s.spy.run(s.text, func() error { r, err = s.fullStmt.QueryContext(ctx, args); return err })
	return r, err
}

// codeError is an error of SQLite's.
type codeError int

func (e codeError) Error() string { return fmt.Sprintf("injected (%d)", int(e)) }
func (e codeError) Code() int     { return int(e) }

// failing fails a text with errors, one each time, and then no more.
func failing(text string, errs ...error) func(string) error {
	var mu sync.Mutex
	return func(got string) error {
		mu.Lock()
		defer mu.Unlock()
		if got != text || len(errs) == 0 {
			return nil
		}
		err := errs[0]
		errs = slices.Delete(errs, 0, 1)
		return err
	}
}

// muteConnector makes connections that cannot tell of deferred constraints.
type muteConnector struct{ *spy }

func (m muteConnector) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := m.spy.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return struct {
		driver.Conn
		driver.ConnBeginTx
		driver.ConnPrepareContext
		driver.ExecerContext
		driver.QueryerContext
	}{c, c.(*spyConn), c.(*spyConn), c.(*spyConn), c.(*spyConn)}, nil
}
