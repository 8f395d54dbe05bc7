package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"modernc.org/sqlite"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/webhook"
)

var nowOf = map[sqlplane.Dialect]string{sqlplane.PostgreSQL: "now()", sqlplane.MySQL: "1", sqlplane.SQLite: "1"}

// TestWebhookUpgradeKilled: a process that makes the tables of webhooks, or upgrades them, is killed (SIGKILL) before each of its statements, and while the server runs it. MySQL and
// MariaDB commit each statement by itself. The next upgrade completes it, with the rows that there were.
func TestWebhookUpgradeKilled(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	onOldDatabases(t, func(t *testing.T, g *testDB) {
		ways := []fault{{name: "before", cut: true}, {name: "during", lose: true}}
		if g.Kind == harness.SQLite { // there is no server
			ways = ways[:1]
		}
		for _, way := range ways {
			for from, least := range []int{10, 5} {
				if from == 0 && way.lose { // what was begun before the next statement has ended: the ways differ for what is under way, and for COMMIT
					continue
				}
				harness.Loop(t, least, func(at int) bool {
					what := fmt.Sprintf("from version %d, %s statement %d", from, way.name, at)
					if from > 0 {
						harness.Must(t, g.upgrade(t.Context(), setup{dsn: g.DSN}, until(t, webhook.Migrations, from)))
						g.exec(t, "insert into once_webhook_event (uid, tenant, type, data, encrypted, created_at) values ('msg_old', 'a', 't', '', false, "+nowOf[dialectOf[g.Kind]]+")")
					}
					killed := g.killUpgrade(t, at, way)
					if err := g.upgrade(t.Context(), setup{dsn: g.DSN}, webhook.Migrations); err != nil {
						t.Errorf("%s: %v", what, err)
					}
					if got := g.applied(t, webhook.Migrations); !strings.HasSuffix(got, "webhook 1, webhook 2, webhook 3, webhook 4") {
						t.Errorf("%s: applied: %s", what, got)
					}
					for query, want := range map[string]int{
						"select count(*) from once_webhook_event where trace = ''": from, "select count(*) from once_webhook_attempt where host = ''": 0,
						"select count(*) from once_webhook_endpoint where public_key = ''": 0, "select count(*) from once_webhook_event where op_scope = '' and op_key = ''": from,
					} {
						if n := g.count(t, query); n != want {
							t.Errorf("%s: %s: %d, want %d", what, query, n, want)
						}
					}
					g = g.renewed(t)
					return killed
				})
			}
		}
	})
}

// killUpgrade has a process upgrade the tables of webhooks. It is killed at a statement, and killed reports whether it came so far.
func (g *testDB) killUpgrade(t *testing.T, at int, way fault) (killed bool) {
	t.Helper()
	p := plan{Flow: flowUpgrade, Store: g.Kind, DSN: g.DSN, At: int64(at)}
	if g.Kind == harness.SQLite {
		_, killed = harness.Start(t, p).End(t)
		return killed
	}
	line := newToll(t, address(t, g.DSN), wireOf(g.Kind))
	p.DSN = line.dsn(g.DSN)
	begun := make(chan struct{})
	var child *harness.Child
	kill := func() {
		<-begun
		child.Kill()
	}
	if way.cut {
		way.meddle = kill
	} else {
		way.overtake = kill
	}
	line.arm(at, way)
	child = harness.Start(t, p)
	close(begun)
	_, killed = child.End(t)
	if killed != line.struck() {
		t.Errorf("statement %d: killed: %t", at, killed)
	}
	return killed
}

// upgradeWebhooks is what the process does. On SQLite it kills itself.
func upgradeWebhooks(ctx context.Context, p plan) error {
	g := &testDB{Database: harness.Database{Kind: p.Store, DSN: p.DSN}}
	su := setup{dsn: p.DSN}
	if p.Store == harness.SQLite {
		c, err := sqlite.NewConnector(p.DSN)
		if err != nil {
			return err
		}
		line := &tripwire{Connector: c}
		line.arm(int(p.At), fault{meddle: func() { faultnet.KillProcess(nil) }})
		su = setup{opens: line.open}
	}
	return g.upgrade(ctx, su, webhook.Migrations)
}
