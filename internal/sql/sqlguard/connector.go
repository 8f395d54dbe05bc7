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

// WrapAlone is Wrap for a connector whose connections take several statements in a packet only because once has asked for it: a user's
// text that holds several statements is still refused on them, in transactions and outside.
func WrapAlone(base driver.Connector, d Dialect) driver.Connector {
	return &connector{base: base, dialect: d, alone: true}
}

type connector struct {
	base    driver.Connector
	dialect Dialect
	alone   bool        // see WrapAlone
	several atomic.Bool // the server takes several statements in a packet: one connection finds out, and all use it
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
		_ = base.Close() // the error is the driver's: Close has nothing to add
		return nil, fmt.Errorf("once: a connection of type %T does not support contexts. Try: a version of the driver whose connections implement driver.ConnBeginTx and driver.ConnPrepareContext", base)
	}
	made := newConn(usable, c)
	if err := made.checkCharset(ctx); err != nil {
		_ = base.Close() // it was not used
		return nil, err
	}
	return made, nil
}

// baseConn and baseStmt are the required interfaces of a driver: methods with contexts, since Go 1.8. The
// drivers of PostgreSQL, MySQL and SQLite have them all.
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

// prepare has the driver prepare a statement.
func prepare(ctx context.Context, c baseConn, query string) (baseStmt, error) {
	s, err := c.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	usable, ok := s.(baseStmt)
	if !ok {
		_ = s.Close() // the error is the driver's: Close has nothing to add
		return nil, fmt.Errorf("once: a statement of type %T does not support contexts. Try: a version of the driver whose statements implement driver.StmtExecContext and driver.StmtQueryContext", s)
	}
	return usable, nil
}

// Driver returns the driver underneath, so that code which recognises a database
// by its driver's type still does.
func (c *connector) Driver() driver.Driver { return c.base.Driver() }

// Close closes the connector underneath if it wants to be closed.
func (c *connector) Close() error {
	if closer, ok := c.base.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}

// DialectOf reports whether a driver connection, as sql.Conn.Raw hands it out,
// is guarded, and which rules it follows. It looks through wrappers that offer
// Raw() driver.Conn, as tracing libraries do.
func DialectOf(driverConn any) (Dialect, bool) {
	c, ok := find(driverConn)
	if !ok {
		return 0, false
	}
	return c.dialect, true
}

// ConnectorOf returns a connector for further guarded connections like this one, nil if it is not
// guarded. To close it is not the caller's business: a *sql.DB on it closes nothing but its connections.
func ConnectorOf(driverConn any) driver.Connector {
	c, ok := find(driverConn)
	if !ok {
		return nil
	}
	return struct{ driver.Connector }{c.from}
}

// Unwrap returns the connection of the driver underneath, for users of
// sql.Conn.Raw who need its own methods. An unguarded connection is returned as
// it is. The guard does not see statements on the returned connection.
func Unwrap(driverConn any) any {
	c, ok := find(driverConn)
	if !ok {
		return driverConn
	}
	if t := c.guarded(); t != nil {
		_ = c.markBefore(c.tx.ctx, t, "") // an error keeps the transaction from committing
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
