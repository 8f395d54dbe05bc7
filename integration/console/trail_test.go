package console_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/webhook"
)

// TestTrailOfWebhooks: an operation, a batch and a step of a saga name the webhooks that they have sent, which name the operation, also when their operation was committed by
// one statement. What was rolled back names nothing.
func TestTrailOfWebhooks(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) {
		d := harness.Migrated(t, kind, sets)
		if kind == harness.Pgx {
			s, _ := harness.OpenPgx(t, d)
			followHooks(t, s)
			return
		}
		s, _ := harness.OpenSQL(t, d)
		followHooks(t, s)
	})
}

func followHooks[TX any](t *testing.T, s harness.Store[TX]) {
	t.Helper()
	here, g := pagesOf(t, s)
	hooks := webhook.New(s, webhook.Config{PlainSecrets: true})
	e, _, err := hooks.Endpoints().Create(t.Context(), webhook.Endpoint{Tenant: "acme", URL: "https://203.0.114.7/hooks", Types: []string{"refund.*"}})
	harness.Must(t, err)
	send := func(ctx context.Context, tx TX, types ...string) error {
		var events []webhook.Event
		for _, kind := range types {
			events = append(events, webhook.Event{Tenant: "acme", Type: kind, Data: []byte(`{}`)})
		}
		return hooks.Send(ctx, tx, events...)
	}
	trail := func(id store.ID, want string) []operate.Event {
		t.Helper()
		found, err := here.Trail(t.Context(), id)
		harness.Must(t, err)
		var got []string
		for _, e := range found.Events {
			if e.Sent == nil {
				t.Fatalf("it is no webhook: %+v", e)
			}
			got = append(got, e.Type+" "+e.State+" of "+e.Step)
			if e.Operation == nil || e.Operation.Scope != id.Scope || e.Operation.Key != id.Key {
				t.Errorf("an event of %v names %+v", id, e.Operation)
			}
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%v has caused %q, want %q", id, got, want)
		}
		return found.Events
	}

	engine := once.New(s, once.Config{Observer: once.Discard})
	id := store.ID{Scope: "acme POST /refunds", Key: "k"}
	_, err = once.Do(t.Context(), engine, once.Operation{Scope: id.Scope, Key: id.Key}, func(ctx context.Context, tx TX) (int, error) {
		return 1, send(ctx, tx, "refund.succeeded", "other")
	})
	harness.Must(t, err)
	events := trail(id, "refund.succeeded waiting of , other unwanted of ")
	if d := events[0].Sent.Deliveries; len(d) != 1 || d[0].Endpoint != e.ID || d[0].State != string(webhook.DeliveryWaiting) {
		t.Errorf("deliveries: %+v", d)
	}
	p := g.get(t, "ada", "operation?id="+g.operationLink(t, "operations"))
	if p.status != http.StatusOK || !strings.Contains(p.body, "delivery?endpoint="+e.ID+"&amp;event="+events[0].ID) {
		t.Errorf("the page of the operation: %d: %s", p.status, p.body)
	}
	if p := g.get(t, "ada", "delivery?endpoint="+e.ID+"&event="+events[0].ID); !strings.Contains(p.body, "operation "+once.KeyHash("k")) {
		t.Errorf("the page of the delivery: %d: %s", p.status, p.body)
	}
	if p := g.get(t, "ada", "event?id="+events[0].ID); !strings.Contains(p.body, e.ID) {
		t.Errorf("the page of the event: %d: %s", p.status, p.body)
	}
	g.exec(t, "update once_webhook_delivery set attempts = 1")
	trail(id, "refund.succeeded failing of , other unwanted of ")
	g.exec(t, "update once_webhook_delivery set due_at = null")
	trail(id, "refund.succeeded dead of , other unwanted of ")

	_, err = once.DoBatch(t.Context(), engine, once.Operation{Scope: "jobs", Key: "batch"}, func(b *once.Batch) (int, error) {
		return 1, hooks.Declare(t.Context(), b, webhook.Event{Tenant: "acme", Type: "refund.declared", Data: []byte(`{}`)})
	})
	harness.Must(t, err)
	trail(store.ID{Scope: "jobs", Key: "batch"}, "refund.declared waiting of ")
	book := saga.Tx("book", func(ctx context.Context, tx TX, _ int) (int, error) { return 1, send(ctx, tx, "refund.booked") })
	trip := saga.New("trip", func(ctx saga.Context, in int) (int, error) { return book.Do(ctx, in) }, book)
	_, err = saga.Do(t.Context(), saga.NewRunner(s, saga.Config{Observer: saga.Observers()}, trip), trip, saga.ID{Tenant: "acme", Key: "trip"}, 1)
	harness.Must(t, err)
	trail(store.ID{Scope: "saga/acme", Key: "trip"}, "refund.booked waiting of book")

	_, err = once.Do(t.Context(), engine, once.Operation{Scope: "jobs", Key: "refused"}, func(ctx context.Context, tx TX) (int, error) {
		harness.Must(t, send(ctx, tx, "refund.never"))
		return 0, &once.Failure{Code: "no"}
	})
	if err == nil || g.count(t, "select count(*) from once_webhook_event where type = 'refund.never'") > 0 {
		t.Errorf("the refusal: %v", err)
	}
	trail(store.ID{Scope: "jobs", Key: "refused"}, "")
	g.exec(t, "delete from once_webhook_event")
	if found, err := here.Trail(t.Context(), id); err != nil || len(found.Events) != 2 || found.Events[0].State != operate.EventGone || found.Events[0].Sent != nil {
		t.Errorf("what is not kept: %+v, %v", found.Events, err)
	}
}
