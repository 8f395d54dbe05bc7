package sqlguard

import (
	"context"
	"database/sql/driver"
	"fmt"
	"io"
)

// Wrap returns a connector whose connections can guard transactions. Hand it to
// sql.OpenDB. Wrapping what is wrapped already changes nothing.
func Wrap(base driver.Connector, d Dialect) driver.Connector {
	if c, ok := base.(*connector); ok && c.dialect == d {
		return c
	}
	return &connector{base: base, dialect: d}
}

type connector struct {
	base    driver.Connector
	dialect Dialect
}

var (
	_ driver.Connector = (*connector)(nil)
	_ io.Closer        = (*connector)(nil)
)

func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	if c.dialect < PostgreSQL || c.dialect > SQLite {
		return nil, fmt.Errorf("once: no rules for %s. Try: sqlguard.PostgreSQL, MySQL or SQLite", c.dialect)
	}
	base, err := c.base.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return newConn(base, c.dialect), nil
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
// Raw() driver.Conn, as those of tracing libraries do.
func DialectOf(driverConn any) (Dialect, bool) {
	c, ok := find(driverConn)
	if !ok {
		return 0, false
	}
	return c.dialect, true
}

// Unwrap returns the connection of the driver underneath, for users of
// sql.Conn.Raw who need its own methods. An unguarded connection is returned as
// it is. The guard does not see what is run there.
func Unwrap(driverConn any) any {
	if c, ok := find(driverConn); ok {
		return c.base
	}
	return driverConn
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
