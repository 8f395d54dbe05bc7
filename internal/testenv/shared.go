package testenv

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// shared is the server of this test process.
//
//nolint:gochecknoglobals // one per process is what it is for
var shared struct {
	sync.Mutex

	server *Postgres
	err    error // why it could not be started; it is not tried again
}

// SharedPostgres returns the server that all the tests of this process share. The
// first call starts it; it ends with the process, and [Main] ends it sooner. A
// test that kills or reconfigures its server starts one of its own with
// [StartPostgres].
func SharedPostgres(tb testing.TB) *Postgres {
	tb.Helper()
	Need(tb, "postgresql")
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil && shared.err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		shared.server, shared.err = StartPostgres(ctx, PostgresConfig{})
	}
	if shared.err != nil {
		tb.Fatal(shared.err)
	}
	return shared.server
}

// NewDatabase makes an empty database on the shared server and returns its URL.
// The database goes away with the test.
func NewDatabase(tb testing.TB) string {
	tb.Helper()
	server := SharedPostgres(tb)
	name := databaseName(tb.Name())
	if err := server.CreateDatabase(name); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := server.DropDatabase(name); err != nil {
			tb.Error(err)
		}
	})
	return server.URL(name)
}

// Main runs the tests and closes the shared server, for use as
//
//	func TestMain(m *testing.M) { testenv.Main(m) }
//
// Without it the server ends all the same, a moment after the process.
func Main(m *testing.M) {
	code := m.Run()
	if err := closeShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func closeShared() error {
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		return nil
	}
	err := shared.server.Close()
	shared.server = nil
	return err
}

var databases atomic.Int64 //nolint:gochecknoglobals // numbers the databases of the shared server

// databaseName turns the name of a test into one that needs no quoting, so that
// the server's log tells whose session it was.
func databaseName(test string) string {
	const longest = 63 // of an identifier
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
