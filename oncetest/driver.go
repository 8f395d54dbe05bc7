package oncetest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

// Open is [sqlstore.Open] with connections that belong to the process p, so that the test can make these connections fail. Every call of the
// driver that may change data counts as a write. Use Open for SQLite. For a driver with a dial function, use [Process.Dial] instead.
func (p *Process) Open(driverName, dataSourceName string) *sql.DB {
	p.suite.tb.Helper()
	plain, err := sqlstore.Open(driverName, dataSourceName)
	if err != nil {
		p.suite.now.Fatal(err)
	}
	d := plain.Driver()
	_ = plain.Close() // no connection was opened yet
	var base driver.Connector = dsnConnector{dataSourceName, d}
	if dc, ok := d.(driver.DriverContext); ok {
		if base, err = dc.OpenConnector(dataSourceName); err != nil {
			p.suite.now.Fatal(err)
		}
	}
	dialect := sqlplane.PostgreSQL
	switch driverName {
	case "sqlite", "sqlite3":
		dialect = sqlplane.SQLite
	case "mysql":
		dialect = sqlplane.MySQL
	}
	db := sqlstore.OpenDB(dialect, p.Connector(base))
	p.suite.tb.Cleanup(func() { _ = db.Close() })
	return db
}

// dsnConnector is a connector for drivers without connectors.
type dsnConnector struct {
	dsn    string
	driver driver.Driver
}

func (c dsnConnector) Connect(context.Context) (driver.Conn, error) { return c.driver.Open(c.dsn) }
func (c dsnConnector) Driver() driver.Driver                        { return c.driver }

// Connector returns a connector whose connections belong to the process p, so that the test can make these connections fail. Pass the returned
// connector to [sqlstore.OpenDB] or [sql.OpenDB]. Every call of the driver that may change data counts as a write.
func (p *Process) Connector(base driver.Connector) driver.Connector { return &connector{base, p} }

type connector struct {
	driver.Connector

	process *Process
}

func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	if c.process.isDead() {
		return nil, errDead
	}
	base, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	usable, ok := base.(baseConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("oncetest: a connection of %T takes no contexts", base), base.Close())
	}
	made := &driverConn{baseConn: usable, process: c.process, open: map[io.Closer]struct{}{}}
	c.process.add(made)
	return made, nil
}

type baseConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
}

// driverConn is a connection of a driver. It is never closed during a call. database/sql calls neither its Begin nor its Prepare.
type driverConn struct {
	baseConn

	process *Process

	mu     sync.Mutex
	closed bool
	open   map[io.Closer]struct{} // open results and prepared statements: SQLite keeps a transaction open as long as there are any
}

// cut closes the connection, so that the database rolls back.
func (c *driverConn) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.close()
}

func (c *driverConn) close() error {
	if c.closed {
		return nil
	}
	c.closed = true
	for _, results := range []bool{true, false} { // results first: SQLite crashes if a statement is closed before its result
		for o := range c.open {
			if _, is := o.(driver.Rows); is == results {
				_ = o.Close()
			}
		}
	}
	return c.baseConn.Close()
}

// closeOne closes an open result or statement of the connection.
func (c *driverConn) closeOne(o io.Closer) error {
	return c.read(func() error {
		delete(c.open, o)
		return o.Close()
	})
}

// read makes a call that sends nothing to the database, so no fault strikes it.
func (c *driverConn) read(call func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errCut
	}
	return call()
}

// write makes a call, unless a fault prevents it.
func (c *driverConn) write(call func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errCut
	}
	act := c.process.write()
	switch act {
	case gone:
		_ = c.close()
		return errDead
	case notSent:
		_ = c.close()
		return errCut
	}
	err := call()
	if act == passes || err == driver.ErrSkip { //nolint:errorlint // database/sql compares it in the same way
		return err
	}
	_ = c.close()
	if act == dies {
		// die cuts all connections, and cut of this one needs the lock.
		c.mu.Unlock()
		c.process.die()
		c.mu.Lock()
		return errDead
	}
	return errCut
}

// Close implements [driver.Conn].
func (c *driverConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.close()
}

// PrepareContext implements [driver.ConnPrepareContext].
func (c *driverConn) PrepareContext(ctx context.Context, query string) (s driver.Stmt, err error) {
	err = c.read(func() error {
		if s, err = c.baseConn.PrepareContext(ctx, query); err == nil {
			c.open[s] = struct{}{}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &driverStmt{Stmt: s, conn: c}, nil
}

// BeginTx implements [driver.ConnBeginTx].
func (c *driverConn) BeginTx(ctx context.Context, opts driver.TxOptions) (tx driver.Tx, err error) {
	err = c.write(func() error {
		tx, err = c.baseConn.BeginTx(ctx, opts)
		return err
	})
	if err != nil {
		return nil, err
	}
	return driverTx{tx, c}, nil
}

// ExecContext implements [driver.ExecerContext].
func (c *driverConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (result driver.Result, err error) {
	e, ok := c.baseConn.(driver.ExecerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	err = c.write(func() error {
		result, err = e.ExecContext(ctx, query, args)
		return err
	})
	return result, err
}

// QueryContext implements [driver.QueryerContext].
func (c *driverConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	q, ok := c.baseConn.(driver.QueryerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	return c.query(func() (driver.Rows, error) { return q.QueryContext(ctx, query, args) })
}

func (c *driverConn) query(call func() (driver.Rows, error)) (rows driver.Rows, err error) {
	err = c.write(func() error {
		if rows, err = call(); err == nil {
			c.open[rows] = struct{}{}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &driverRows{Rows: rows, conn: c}, nil
}

// CheckNamedValue implements [driver.NamedValueChecker].
func (c *driverConn) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := c.baseConn.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

// ResetSession implements [driver.SessionResetter].
func (c *driverConn) ResetSession(ctx context.Context) error {
	return c.read(func() error {
		if r, ok := c.baseConn.(driver.SessionResetter); ok {
			return r.ResetSession(ctx)
		}
		return nil
	})
}

// IsValid implements [driver.Validator].
func (c *driverConn) IsValid() bool {
	return c.read(func() error {
		if v, ok := c.baseConn.(driver.Validator); ok && !v.IsValid() {
			return errCut
		}
		return nil
	}) == nil
}

// Ping implements [driver.Pinger].
func (c *driverConn) Ping(ctx context.Context) error {
	return c.read(func() error {
		if p, ok := c.baseConn.(driver.Pinger); ok {
			return p.Ping(ctx)
		}
		return nil
	})
}
