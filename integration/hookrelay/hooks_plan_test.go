package hookrelay

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/webhook"
)

// TestHooksPlans: what sends events, lists deliveries, sends them again and sweeps reads ranges of indexes, however many events, deliveries and attempts there are, by plans for
// any arguments, with statistics of an empty table and with new ones. What Send and a page of a list read does not grow with them.
func TestHooksPlans(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	const rows, endpoints = 60_000, 150
	g := newFixture(t, harness.Pgx)
	tables := []string{"once_webhook_delivery", "once_webhook_event", "once_webhook_attempt", "once_webhook_endpoint"}
	for _, table := range tables {
		g.exec(t, "alter table "+table+" set (autovacuum_enabled = false)")
		g.exec(t, "analyze "+table)
	}
	g.exec(t, `insert into once_webhook_endpoint (uid, part, tenant, url, types, description, headers, secret, encrypted, ordered, rate, concurrency, disabled_by, created_at, version)
 select 'ep_' || i, i % 64, 't' || i % ($1 / 3), 'http://127.0.0.1', ' * ', '', '{}', '', false, false, 0, 0, '', now(), 1 from generate_series(1, $1::int) i`, endpoints)
	g.exec(t, `insert into once_webhook_event (uid, tenant, type, data, encrypted, created_at)
 select 'msg_' || i, 't' || i % ($2 / 3), 'a', '{}', false, now() - interval '40 days' + i * interval '30 seconds' from generate_series(1, $1::int) i`, rows, endpoints)
	g.exec(t, `insert into once_webhook_delivery (endpoint, event, part, due_at, attempts, cause, created_at)
 select (i - 1) % $2 + 1, i, 0, case when i % 3 = 0 then now() + interval '1 hour' end, 1, '', now() from generate_series(1, $1::int) i where i % 2 = 0`, rows, endpoints)
	g.exec(t, `insert into once_webhook_attempt (endpoint, event, at, micros, status, error, size, answer, encrypted, cause)
 select (i - 1) % $2 + 1, i, now(), 1, 500, '', 0, '', false, '' from generate_series(1, $1::int) i`, rows, endpoints)
	what, most, stale := "", 0, true
	seen := map[string]int{}
	explain := func(st store.Statement) error { // before it runs
		if !strings.Contains(st.SQL, "once_webhook_") {
			return nil
		}
		if seen[st.SQL]++; seen[st.SQL] > 2 {
			return nil
		}
		_, buffers, plan := g.explain(t, st)
		for _, table := range tables[:3] {
			if strings.Contains(plan, "Seq Scan on "+table) {
				t.Errorf("%s, stale %t: %s is read whole by %s\n%s", what, stale, table, st.SQL, plan)
			}
		}
		if buffers > most {
			t.Errorf("%s, stale %t: %d buffers for %s\n%s", what, stale, buffers, st.SQL, plan)
		}
		return nil
	}
	s, ok := g.db.(sqlplane.SQL[pgx.Tx])
	if !ok {
		t.Fatal("it has no transactions")
	}
	hooks := webhook.New[pgx.Tx](watched[pgx.Tx]{s, &watch{before: explain}}, config(g.to.url))
	for _, stale = range []bool{true, false} {
		if !stale {
			g.exec(t, "vacuum analyze")
		}
		// A preview looks up each of the tenant's 1,200 events in two indexes of two or three levels. Sweep is the last, because it deletes what the others read.
		for _, use := range []struct {
			what string
			most int
		}{{"send", 250}, {"list", 2000}, {"resend", 400}, {"recover", 9000}, {"sweep", 40_000}} {
			what, most = use.what, use.most
			clear(seen)
			must(t, g.uses(t, hooks, what))
			if len(seen) == 0 {
				t.Errorf("vacuous: no statement was seen of %s", what)
			}
		}
	}
}

// uses has all statements run that do something.
func (g *fixture) uses(t *testing.T, hooks *webhook.Hooks[pgx.Tx], what string) error {
	t.Helper()
	const tenant, id = "t3", "ep_53"
	ctx, es := t.Context(), hooks.Endpoints()
	period := webhook.Period{Since: time.Now().Add(-time.Minute)}
	switch what {
	case "send":
		s, _ := g.db.(store.Store[pgx.Tx])
		txn, _, err := s.Begin(ctx, store.BeginOptions{})
		if err == nil {
			err = errors.Join(hooks.Send(ctx, txn.Tx(), webhook.Event{Tenant: tenant, Type: "refund.done.now", Data: []byte("{}")}), txn.Rollback(ctx))
		}
		return err
	case "list":
		var errs []error
		for _, state := range []webhook.DeliveryState{"", webhook.DeliveryWaiting, webhook.DeliveryStopped, webhook.DeliveryDelivered} {
			_, _, err := es.Deliveries(ctx, tenant, id, webhook.DeliveryFilter{State: state})
			_, _, again := es.Deliveries(ctx, tenant, id, webhook.DeliveryFilter{State: state, Before: "msg_50003"})
			errs = append(errs, err, again)
		}
		_, _, err := es.Delivery(ctx, tenant, id, "msg_50003")
		return errors.Join(append(errs, err)...)
	case "resend":
		_, err := es.Test(ctx, tenant, id)
		return errors.Join(err, es.Resend(ctx, tenant, id, "msg_50003"))
	case "recover":
		_, err := es.Recover(ctx, tenant, id, period)
		_, again := es.Replay(ctx, tenant, id, period)
		_, _, stopped := es.Preview(ctx, tenant, id, period, false)
		_, _, missed := es.Preview(ctx, tenant, id, period, true)
		return errors.Join(err, again, stopped, missed)
	}
	_, err := hooks.Sweep(ctx)
	return err
}
