package hookrelay

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/webhook"
)

// TestOldSnapshot: while a transaction is open that may see all that an endpoint has got, and another endpoint has much that has stopped, a claim reads none of it. The finder
// reads it, and no delivery waits for that.
func TestOldSnapshot(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	harness.Each(t, []string{harness.Pgx}, func(t *testing.T, kind string) {
		const done, most = 20_000, 60
		g := newFixture(t, kind)
		g.endpoints(t, endpoint{id: 1, uid: "ep_busy", tenant: "a"}, endpoint{id: 2, uid: "ep_ordered", tenant: "b", ordered: true}, endpoint{id: 3, uid: "ep_other", tenant: "c"})
		g.exec(t, `with v as (insert into once_webhook_event (uid, tenant, type, data, encrypted, created_at) select 'old' || i, 'b', 't', '', false, now() - interval '1 hour' from generate_series(1, $1::int) i returning id)
 insert into once_webhook_delivery (endpoint, event, part, attempts, cause, created_at) select 2, id, 2, 3, '', now() from v`, done)
		must(t, g.db.Within(t.Context(), store.RepeatableRead, func(ctx context.Context, r sqlplane.Runner) error {
			must(t, r.Query(ctx, store.Statement{SQL: "select count(*) from once_webhook_event"}, func(sqlplane.Row) error { return nil })) // from now on it may see what is deleted
			g.exec(t, fill, done, 1, -60, 1_000_000)
			g.exec(t, "delete from once_webhook_delivery where endpoint = 1")
			var armed atomic.Bool
			var claims, finds atomic.Int64
			released := make(chan struct{})
			release := sync.OnceFunc(func() { close(released) })
			defer release()
			looks := make(chan struct{}) // for new events: before its first look the relay has found out which events are old
			looked := sync.OnceFunc(func() { close(looks) })
			w := &watch{before: func(st store.Statement) error {
				switch {
				case strings.HasPrefix(st.SQL, "select id, tenant, created_at from once_webhook_event where id >"):
					looked()
				case !armed.Load():
				case isFinder(st):
					finds.Add(1)
					<-released
				case isClaim(st):
					claims.Add(1)
					if rows, buffers, plan := g.explain(t, st); buffers > most+5*rows {
						t.Errorf("%d buffers for %d rows:\n%s", buffers, rows, plan)
					}
				}
				return nil
			}}
			told := newEvents()
			stop := g.start(t, w, webhook.RelayConfig{Observer: told})
			sent := 0
			send := func() {
				sent++
				for _, tenant := range []string{"a", "b", "c"} {
					g.send(t, tenant, strings.Repeat(tenant, sent), 1)
				}
				told.wait(t, webhook.EventDelivered, "", 3*sent)
			}
			<-looks
			send()
			send()
			armed.Store(true)
			for finds.Load() == 0 || claims.Load() < 10 {
				send()
			}
			release()
			stop()
			return nil
		}))
	})
}

// TestDueBefore: what becomes due before all that an endpoint has got is delivered, also if no event tells of it: it was sent in a transaction that has committed late.
func TestDueBefore(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) {
		g := newFixture(t, kind)
		g.endpoints(t, endpoint{id: 1, uid: "ep_1", tenant: "a"}, endpoint{id: 2, uid: "ep_2", tenant: "a", ordered: true})
		told := newEvents()
		g.start(t, nil, webhook.RelayConfig{Observer: told})
		g.send(t, "a", "e", 5)
		told.wait(t, webhook.EventDelivered, "", 10)
		g.exec(t, `insert into once_webhook_delivery (endpoint, event, part, due_at, attempts, cause, created_at)
 select e.id, v.id, e.part, AGO(?), 0, '', v.created_at from once_webhook_event v join once_webhook_endpoint e on e.tenant = v.tenant where v.uid = 'e-0'`, int64(3600_000_000))
		told.wait(t, webhook.EventDelivered, "", 12)
		if one, two := g.to.ids("ep_1")["e-0"], g.to.ids("ep_2")["e-0"]; one != 2 || two != 2 {
			t.Errorf("it has arrived %d and %d times, want 2", one, two)
		}
	})
}
