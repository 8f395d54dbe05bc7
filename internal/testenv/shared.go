package testenv

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// sharedServer is a server that all tests of this process share.
type sharedServer[S interface{ Close() error }] struct {
	sync.Mutex

	server *S
	err    error // why the server could not be started; no later test tries again
}

//nolint:gochecknoglobals // one per process is what they are for
var (
	shared        sharedServer[*Postgres]
	sharedMariaDB sharedServer[*MariaDB]
	sharedMySQL   sharedServer[*MariaDB]
)

// of returns the server. The first call starts it.
func (s *sharedServer[S]) of(tb testing.TB, start func(context.Context) (S, error)) S {
	tb.Helper()
	s.Lock()
	defer s.Unlock()
	if s.server == nil && s.err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		var server S
		if server, s.err = start(ctx); s.err == nil {
			s.server = &server
		}
	}
	if s.err != nil {
		tb.Fatal(s.err)
	}
	return *s.server
}

func (s *sharedServer[S]) close() error {
	s.Lock()
	defer s.Unlock()
	if s.server == nil {
		return nil
	}
	err := (*s.server).Close()
	s.server = nil
	return err
}

// SharedPostgres returns the server that all tests of this process share. The first call starts it. It ends with the process, or
// earlier by [Main]. A test that kills or reconfigures its server must start its own with
// [StartPostgres].
func SharedPostgres(tb testing.TB) *Postgres {
	tb.Helper()
	Need(tb, "postgresql")
	return shared.of(tb, func(ctx context.Context) (*Postgres, error) { return StartPostgres(ctx, PostgresConfig{}) })
}

// SharedMariaDB does for MariaDB what SharedPostgres does for PostgreSQL.
func SharedMariaDB(tb testing.TB) *MariaDB {
	tb.Helper()
	Need(tb, "mariadb")
	return sharedMariaDB.of(tb, func(ctx context.Context) (*MariaDB, error) { return StartMariaDB(ctx, MariaDBConfig{}) })
}

// SharedMySQL does for MySQL what SharedPostgres does for PostgreSQL.
func SharedMySQL(tb testing.TB) *MariaDB {
	tb.Helper()
	Need(tb, "mysql")
	return sharedMySQL.of(tb, func(ctx context.Context) (*MariaDB, error) { return StartMariaDB(ctx, MariaDBConfig{MySQL: true}) })
}

// NewDatabase makes an empty database on the shared server, and returns its URL. The database is dropped at the end of the
// test.
func NewDatabase(tb testing.TB) string {
	tb.Helper()
	server := SharedPostgres(tb)
	return server.URL(newDatabase(tb, server))
}

// NewMariaDB makes an empty database on the shared MariaDB server, and returns its data source name. The caller may append "?" and
// parameters. The database is dropped at the end of the test.
func NewMariaDB(tb testing.TB) string {
	tb.Helper()
	server := SharedMariaDB(tb)
	return server.DSN(newDatabase(tb, server))
}

// NewMySQL does for MySQL what NewMariaDB does for MariaDB.
func NewMySQL(tb testing.TB) string {
	tb.Helper()
	server := SharedMySQL(tb)
	return server.DSN(newDatabase(tb, server))
}

func newDatabase(tb testing.TB, server interface {
	CreateDatabase(name string) error
	DropDatabase(name string) error
}) string {
	tb.Helper()
	name := databaseName(tb.Name())
	if err := server.CreateDatabase(name); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := server.DropDatabase(name); err != nil {
			tb.Error(err)
		}
	})
	return name
}

// Main runs the tests and closes the shared servers, for use as
//
//	func TestMain(m *testing.M) { testenv.Main(m) }
//
// Without Main, the servers end a moment after the process.
func Main(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // engines log there by default, and storms would fill the output
	code := m.Run()
	if err := errors.Join(shared.close(), sharedMariaDB.close(), sharedMySQL.close()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

var databases atomic.Int64 //nolint:gochecknoglobals // numbers the databases of the shared servers

// databaseName turns the name of a test into a name that needs no quotes, so that the server's log shows which test a session
// belongs to.
func databaseName(test string) string {
	const longest = 63 // the longest identifier
	name := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return r
		case 'A' <= r && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '_'
	}, test)
	name = fmt.Sprintf("t%d_%s", databases.Add(1), name)
	return name[:min(len(name), longest)]
}
