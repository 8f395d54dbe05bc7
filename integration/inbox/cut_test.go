package inbox

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/testenv"
)

// twicePgx opens a new database twice: without faults, and by connections that may have some.
func twicePgx(t *testing.T, faulty harness.Dial) (near, far *fixture[pgx.Tx]) {
	t.Helper()
	d := migrated(t, harness.Pgx)
	return openPgx(t, d), openPgx(t, d, func(c *pgxpool.Config) { c.ConnConfig.DialFunc = faulty })
}

// twiceSQL is twicePgx for MariaDB and MySQL.
func twiceSQL(t *testing.T, name string, faulty harness.Dial) (near, far *fixture[*sql.Tx]) {
	t.Helper()
	d := migrated(t, name)
	near = openSQL(t, d)
	s, _ := harness.OpenDialed(t, d, faulty)
	return near, fixtureOn(name, s)
}

// cuts are the ways in which a connection breaks at a point of a conversation.
var cuts = map[string]func(w *faultnet.Wire, n int64, call func(*faultnet.Conn)){
	"before write": (*faultnet.Wire).BeforeWrite, // the server does not get it
	"before read":  (*faultnet.Wire).BeforeRead,  // the server does what was asked, and its answer is lost
}

// TestEveryWriteIsCut: the connection breaks before the N-th write to its socket, or before the answer to it is read,
// N = 1, 2, ... until a run survives: every message is applied once, and in order.
func TestEveryWriteIsCut(t *testing.T) {
	testenv.Core(t)
	for name, cut := range cuts {
		for _, f := range []flow{{inbox.AnyOrder, 20}, {inbox.InOrder, 1}, {inbox.InOrder, 20}} {
			t.Run(fmt.Sprintf("%s, %s", name, f), func(t *testing.T) {
				t.Run("pgxstore", func(t *testing.T) {
					t.Parallel()
					testenv.Sample(t, 6)
					var wire faultnet.Wire
					near, far := twicePgx(t, wire.DialContext)
					testEveryWriteIsCut(t, near, far, f, &wire, cut)
				})
				for _, db := range []string{"MariaDB", "MySQL"} {
					t.Run(db, func(t *testing.T) {
						t.Parallel()
						testenv.Sample(t, 6)
						var wire faultnet.Wire
						near, far := twiceSQL(t, db, wire.DialContext)
						testEveryWriteIsCut(t, near, far, f, &wire, cut)
					})
				}
			})
		}
	}
}

func testEveryWriteIsCut[TX any](t *testing.T, near, far *fixture[TX], f flow, wire *faultnet.Wire, cut func(w *faultnet.Wire, n int64, call func(*faultnet.Conn))) {
	first, step := testenv.Stride(t, 16)
	struck := everyPoint(t, near, f, first, step, func(n int) (*once.Engine[TX], func() string) {
		var hit atomic.Bool
		wire.Reset()
		cut(wire, int64(n), func(c *faultnet.Conn) {
			hit.Store(true)
			_ = c.Close()
		})
		return far.engine, func() string {
			wire.Reset()
			if hit.Load() {
				return "cut"
			}
			return ""
		}
	})
	if testenv.Reportf(t, "%s: cut at %d points", near.name, struck); struck < max(1, 50/step-1) {
		t.Errorf("vacuous: cut at %d points", struck)
	}
}

// TestConnectionsAreCut: the database's answers are lost again and again, and the connections with them, while several
// nodes get the same messages in batches and in disorder: each is applied once, and those of a key in order.
func TestConnectionsAreCut(t *testing.T) {
	testenv.Prove(t)
	t.Run("pgxstore", func(t *testing.T) {
		t.Parallel()
		proxy := proxyTo(t, testenv.SharedPostgres(t).Addr())
		near, far := twicePgx(t, proxy.DialContext)
		testConnectionsAreCut(t, near, far, proxy, faultnet.PostgresIdle[:5])
	})
	t.Run("MariaDB", func(t *testing.T) {
		t.Parallel()
		proxy := proxyTo(t, testenv.SharedMariaDB(t).Addr())
		near, far := twiceSQL(t, "MariaDB", proxy.DialContext)
		testConnectionsAreCut(t, near, far, proxy, "")
	})
	t.Run("MySQL", func(t *testing.T) {
		t.Parallel()
		testenv.Sample(t, 4)
		proxy := proxyTo(t, testenv.SharedMySQL(t).Addr())
		near, far := twiceSQL(t, "MySQL", proxy.DialContext)
		testConnectionsAreCut(t, near, far, proxy, "")
	})
}

func proxyTo(t *testing.T, server string) *faultnet.Proxy {
	t.Helper()
	proxy, err := faultnet.Listen(server)
	must(t, err)
	t.Cleanup(func() { _ = proxy.Close() })
	return proxy
}

func testConnectionsAreCut[TX any](t *testing.T, near, far *fixture[TX], proxy *faultnet.Proxy, until string) {
	const n = 20
	keys := []string{"a", "b", "c"}
	all := mixed(keys, n)
	in, _ := far.inbox(t, inbox.Config{Order: inbox.InOrder})
	ctx, stop := context.WithCancel(t.Context())
	var beside sync.WaitGroup
	beside.Go(func() {
		if err := in.Run(ctx, far.book); err != nil {
			t.Error(err)
		}
	})
	trigger := proxy.Arm(faultnet.DropEvery(53, until)) // far more than a message needs, and a login
	far.onNodes(t, all, 3, 6)
	proxy.Disarm()
	stop()
	beside.Wait()
	testenv.Count("connections cut", int(trigger.Count()))
	testenv.Reportf(t, "%s: %d connections were cut", near.name, trigger.Count())
	if trigger.Count() < 5 {
		t.Errorf("vacuous: %d connections were cut", trigger.Count())
	}
	healthy, _ := near.inbox(t, inbox.Config{Order: inbox.InOrder})
	run(t, healthy, near.book, func() bool { return near.count(t, "select count(*) from once_inbox_parked") == 0 })
	near.wantMixed(t, all, keys, n)
}
