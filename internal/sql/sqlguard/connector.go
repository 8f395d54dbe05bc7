package sqlguard

import (
	"context"
	"database/sql/driver"
	"fmt"
	"io"
	"sync/atomic"
)

// Wrap returns a connector whose connections can guard transactions. Pass it to
// sql.OpenDB. Wrapping a wrapped connector changes nothing.
func Wrap(base driver.Connector, d Dialect) driver.Connector {
	if c, ok := base.(*connector); ok && c.dialect == d {
		return c
	}
	return &connector{base: base, dialect: d}
}

// WrapAlone is Wrap for a connector whose connections accept several statements in a packet only because of once. A text of the
// user with several statements is still refused on these connections, in transactions and outside.
func WrapAlone(base driver.Connector, d Dialect) driver.Connector {
	return &connector{base: base, dialect: d, alone: true}
}

type connector struct {
	base    driver.Connector
	dialect Dialect
	alone   bool        // see WrapAlone
	several atomic.Bool // the server accepts several statements in a packet; one connection finds this out for all
}

var (
	_ driver.Connector = (*connector)(nil)
	_ io.Closer        = (*connector)(nil)
)

func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	if c.dialect < PostgreSQL || c.dialect > SQLite {
		return nil, fmt.Errorf("once: package sqlguard does not support the dialect %s. Try: sqlguard.PostgreSQL, sqlguard.MySQL or sqlguard.SQLite", c.dialect)
	}
	base, err := c.base.Connect(ctx)
	if err != nil {
		return nil, err
	}
	usable, ok := base.(baseConn)
	if !ok {
		_ = base.Close() // the driver's version is the reason: an error of Close adds nothing
		return nil, fmt.Errorf("once: a connection of type %T does not support contexts. Try: a version of the driver whose connections implement driver.ConnBeginTx and driver.ConnPrepareContext", base)
	}
	made := newConn(usable, c)
	if err := made.checkCharset(ctx); err != nil {
		_ = base.Close() // it was not used
		return nil, err
	}
	return made, nil
}

// baseConn and baseStmt are the interfaces that a driver must have: methods with contexts, since Go 1.8. The drivers of
// PostgreSQL, MySQL and SQLite have them.
type baseConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
}

type baseStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// prepare prepares a statement with the driver.
func prepare(ctx context.Context, c baseConn, query string) (baseStmt, error) {
	s, err := c.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	usable, ok := s.(baseStmt)
	if !ok {
		_ = s.Close() // the driver's version is the reason: an error of Close adds nothing
		return nil, fmt.Errorf("once: a statement of type %T does not support contexts. Try: a version of the driver whose statements implement driver.StmtExecContext and driver.StmtQueryContext", s)
	}
	return usable, nil
}

// Driver returns the underlying driver, so that code can still recognise a database by the type of its driver.
func (c *connector) Driver() driver.Driver { return c.base.Driver() }

// Close closes the underlying connector if it can be closed.
func (c *connector) Close() error {
	if closer, ok := c.base.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}

// DialectOf reports whether a driver connection from sql.Conn.Raw is guarded, and returns its dialect. It looks through wrappers
// with a method Raw() driver.Conn, as tracing libraries have.
func DialectOf(driverConn any) (Dialect, bool) {
	c, ok := find(driverConn)
	if !ok {
		return 0, false
	}
	return c.dialect, true
}

// ConnectorOf returns a connector for further guarded connections like this one, or nil if this connection is not guarded. The
// caller must not close it: a *sql.DB on it closes only its own connections.
func ConnectorOf(driverConn any) driver.Connector {
	c, ok := find(driverConn)
	if !ok {
		return nil
	}
	return struct{ driver.Connector }{c.from}
}

// Unwrap returns the connection of the underlying driver, for users of sql.Conn.Raw who need its methods. It returns an unguarded
// connection unchanged. The guard does not see statements on the returned connection.
func Unwrap(driverConn any) any {
	c, ok := find(driverConn)
	if !ok {
		return driverConn
	}
	if t := c.guarded(); t != nil {
		_ = c.markBefore(c.tx.ctx, t, "") // after an error the transaction cannot commit
	}
	return c.base
}

func find(driverConn any) (*conn, bool) {
	for {
		switch c := driverConn.(type) {
		case *conn:
			return c, true
		case interface{ Raw() driver.Conn }:
			driverConn = c.Raw()
		default:
			return nil, false
		}
	}
}
