package torture

import (
	"strings"
	"testing"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/internal/torture/harness"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/webhook"
)

var nowOf = map[sqlplane.Dialect]string{sqlplane.PostgreSQL: "now()", sqlplane.MySQL: "1", sqlplane.SQLite: "1"}

// TestWebhookUpgradeKilled: the upgrade of the tables of webhooks loses its connection at each of its statements; the next one completes it, with the rows that there were.
func TestWebhookUpgradeKilled(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	onOldDatabases(t, func(t *testing.T, g *testDB) {
		for _, f := range killsOf[g.Kind] {
			harness.Loop(t, 3, func(at int) bool {
				harness.Must(t, g.upgrade(t.Context(), setup{dsn: g.DSN}, until(t, webhook.Migrations, 1)))
				g.exec(t, "insert into once_webhook_event (uid, tenant, type, data, encrypted, created_at) values ('msg_old', 'a', 't', '', false, "+nowOf[dialectOf[g.Kind]]+")")
				line, su := g.obstructed(t)
				line.arm(at, f)
				err := g.upgrade(t.Context(), su, webhook.Migrations)
				struck := line.struck()
				if !struck && err != nil {
					t.Errorf("not killed: %v", err)
				}
				if err := g.upgrade(t.Context(), setup{dsn: g.DSN}, webhook.Migrations); err != nil {
					t.Errorf("%s statement %d: %v", f.name, at, err)
				}
				if got := g.applied(t, webhook.Migrations); !strings.HasSuffix(got, "webhook 1, webhook 2, webhook 3") {
					t.Errorf("%s statement %d: applied: %s", f.name, at, got)
				}
				for _, query := range []string{"select count(*) from once_webhook_event where trace = ''", "select 1 + count(*) from once_webhook_attempt where host = ''", "select 1 + count(*) from once_webhook_endpoint where public_key = ''"} {
					if n := g.count(t, query); n != 1 {
						t.Errorf("%s statement %d: %s: %d", f.name, at, query, n)
					}
				}
				g = g.renewed(t)
				return struck
			})
		}
	})
}
