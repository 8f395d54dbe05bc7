package harness

import (
	"context"
	"testing"
	"time"

	"github.com/oncelib/once/internal/testenv"
)

// Server is one that a test stops, or whose clock it sets.
type Server interface {
	Kill() error
	Restart(ctx context.Context) error
	SetClock(ahead time.Duration) error
}

// NewServer starts a server for a test alone, with a clock of its own if the test sets it, and makes an empty database on it.
func NewServer(tb testing.TB, kind string, clock bool) (Server, Database) {
	tb.Helper()
	if clock {
		testenv.Need(tb, "faketime")
	}
	if kind == MariaDB || kind == MySQL {
		testenv.Need(tb, map[string]string{MariaDB: "mariadb", MySQL: "mysql"}[kind])
		m, err := testenv.StartMariaDB(tb.Context(), testenv.MariaDBConfig{Clock: clock, MySQL: kind == MySQL})
		Must(tb, err)
		tb.Cleanup(func() { _ = m.Close() })
		Must(tb, m.CreateDatabase("app"))
		return m, Database{kind, m.DSN("app")}
	}
	testenv.Need(tb, "postgresql")
	p, err := testenv.StartPostgres(tb.Context(), testenv.PostgresConfig{Clock: clock})
	Must(tb, err)
	tb.Cleanup(func() { _ = p.Close() })
	Must(tb, p.CreateDatabase("app"))
	return p, Database{kind, p.URL("app")}
}
