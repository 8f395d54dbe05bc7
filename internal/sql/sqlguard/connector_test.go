package sqlguard

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strings"
	"testing"
)

func TestDialectOfAndUnwrap(t *testing.T) {
	t.Parallel()
	f := newFake()
	for name, connector := range map[string]driver.Connector{
		"guarded":              Wrap(f, MySQL),
		"guarded twice":        Wrap(Wrap(f, MySQL), MySQL),
		"under something else": tracing{Wrap(f, MySQL)},
		"bare":                 f,
	} {
		db := sql.OpenDB(connector)
		defer db.Close()
		c, err := db.Conn(t.Context())
		must(t, err)
		must(t, c.Raw(func(driverConn any) error {
			d, ok := DialectOf(driverConn)
			if guarded := name != "bare"; ok != guarded || guarded && d != MySQL {
				t.Errorf("%s: DialectOf() = %s, %v", name, d, ok)
			}
			if got, ok := Unwrap(driverConn).(*fakeConn); !ok {
				t.Errorf("%s: Unwrap() = %T", name, got)
			}
			return nil
		}))
		if db.Driver() != driver.Driver(f) {
			t.Errorf("%s: Driver() = %T", name, db.Driver())
		}
	}
}

// tracing wraps connections as tracing libraries do.
type tracing struct{ driver.Connector }

func (c tracing) Connect(ctx context.Context) (driver.Conn, error) {
	base, err := c.Connector.Connect(ctx)
	return traced{base}, err
}

type traced struct{ driver.Conn }

func (c traced) Raw() driver.Conn { return c.Conn }

func TestUnknownDialect(t *testing.T) {
	t.Parallel()
	db := sql.OpenDB(Wrap(newFake(), 0))
	defer db.Close()
	if err := db.Ping(); err == nil || !strings.Contains(err.Error(), "Dialect(0)") {
		t.Errorf("Ping() = %v", err)
	}
}

func TestConnectorCloses(t *testing.T) {
	t.Parallel()
	base := &closing{Connector: newFake()}
	must(t, sql.OpenDB(Wrap(base, SQLite)).Close())
	if !base.closed {
		t.Error("the connector underneath was not closed")
	}
	must(t, sql.OpenDB(Wrap(newFake(), SQLite)).Close())
}

type closing struct {
	driver.Connector

	closed bool
}

func (c *closing) Close() error {
	c.closed = true
	return nil
}
