package hookrelay

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/base/gaugename"
	"github.com/oncelib/once/internal/base/instrument"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/webhook"
)

// recorded is what a relay measures and traces.
type recorded struct {
	mu     sync.Mutex
	counts map[string]float64
	spans  []string // that have ended
}

// Record implements instrument.Recorder.
func (r *recorded) Record(_ context.Context, m instrument.Measurement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[instrument.All[m.ID].Name+" "+m.Labels[0]] += m.Value
}

// WebhookSpan implements webhook.Tracer.
func (r *recorded) WebhookSpan(ctx context.Context, s webhook.Span) (context.Context, func(status int, failure string)) {
	return ctx, func(status int, failure string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.spans = append(r.spans, fmt.Sprint(s.EventType, " ", s.EventID, " ", s.Endpoint, " ", s.Attempt, " ", s.Trace, " ", status, " ", failure))
	}
}

// TestRelayIsSeen: each attempt is counted by its result and has a span, and counters that have not grown are 0.
func TestRelayIsSeen(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) {
		g := newFixture(t, kind)
		g.endpoints(t, endpoint{id: 1, uid: "ep_1", tenant: "a"}, endpoint{id: 2, uid: "ep_gone", tenant: "b"})
		g.to.set("ep_1", func(n int, _ *http.Request, _ http.ResponseWriter) int {
			if n == 1 {
				return http.StatusInternalServerError
			}
			return http.StatusNoContent
		})
		g.to.set("ep_gone", fails(http.StatusGone))
		g.send(t, "a", "e", 1)
		g.send(t, "b", "g", 1)
		g.exec(t, "update once_webhook_event set trace = 'traced' where uid = 'e-0'")
		seen, told := &recorded{counts: map[string]float64{}}, newEvents()
		stop := g.start(t, nil, webhook.RelayConfig{Schedule: soon(3), Tracer: seen, Observer: webhook.RelayObservers(webhook.RelayMetrics(seen), told)})
		told.wait(t, webhook.EventDelivered, "ep_1", 1)
		told.wait(t, webhook.EventFailed, "ep_gone", 1)
		stop()
		// ep_gone gets one more request if it is not disabled yet when its next attempt is due.
		want := map[string]float64{
			"once_webhook_attempts_total delivered": 1, "once_webhook_attempts_total failed": float64(1 + len(g.to.arrived("ep_gone"))), "once_webhook_attempts_total ran_out": 0, "once_webhook_disabled_total gone": 1, "once_webhook_disabled_total failing": 0,
		}
		for _, reason := range []string{"resources", "proxy", "route", "name"} {
			want["once_webhook_own_failures_total "+reason] = 0
		}
		for name, n := range want {
			if got, counted := seen.counts[name]; !counted || got != n {
				t.Errorf("%s is %v, want %v", name, got, n)
			}
		}
		if len(seen.counts) != len(want) {
			t.Errorf("%d counters, want %d: %v", len(seen.counts), len(want), seen.counts)
		}
		for _, span := range []string{"t e-0 ep_1 1 traced 500 500", "t e-0 ep_1 2 traced 204 ", "t g-0 ep_gone 1  410 410"} {
			if !slices.Contains(seen.spans, span) {
				t.Errorf("%q is not in %q", span, seen.spans)
			}
		}
	})
}

// TestGaugesOfEndpointsAndRelays: what waits and since when, which endpoints are left alone, and whether a relay runs, is read from the tables; requests that are slow, from the relay.
func TestGaugesOfEndpointsAndRelays(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) {
		g := newFixture(t, kind)
		values := func(sources ...gauge.Source) map[string]float64 {
			got := map[string]float64{}
			for _, s := range append(sources, webhook.Gauges(g.db)) {
				list, err := s.Gauges(t.Context())
				must(t, err)
				for _, v := range list {
					got[v.Name+" "+v.Label] = v.Number
				}
			}
			return got
		}
		want := func(got map[string]float64, deliveries, due, open, gone, relays float64) {
			t.Helper()
			for name, n := range map[string]float64{gaugename.WebhookDeliveries + " ": deliveries, gaugename.WebhookDueEndpoints + " ": due, gaugename.WebhookCircuitsOpen + " ": open,
				gaugename.WebhookDisabledEndpoints + " gone": gone, gaugename.WebhookDisabledEndpoints + " person": 0, gaugename.WebhookDisabledEndpoints + " failing": 0, gaugename.WebhookRelays + " ": relays} {
				if v, exists := got[name]; !exists || v != n {
					t.Errorf("%s is %v, want %v", name, v, n)
				}
			}
			if age := got[gaugename.WebhookDueOldestAge+" "]; (age > 0) != (due > 0) || due > 0 && (age < 59 || age > 3600) {
				t.Errorf("the oldest has been due for %v s", age)
			}
		}
		want(values(), 0, 0, 0, 0, 0)
		g.endpoints(t, endpoint{id: 1, uid: "ep_1", tenant: "a"}, endpoint{id: 2, uid: "open", tenant: "a"}, endpoint{id: 3, uid: "gone", tenant: "a"}, endpoint{id: 4, uid: "later", tenant: "a"})
		g.send(t, "a", "e", 2)
		g.exec(t, "update once_webhook_delivery set due_at = AGO(?) where endpoint <> 4", time.Minute.Microseconds())
		g.exec(t, "update once_webhook_delivery set due_at = AGO(?) where endpoint = 4", -time.Hour.Microseconds())
		g.exec(t, "insert into once_webhook_state (endpoint, part, failures, failing_since, circuit_until, told) values (2, 2, 9, NOW, AGO(?), 0)", -time.Hour.Microseconds())
		g.exec(t, "update once_webhook_endpoint set disabled_at = NOW, disabled_by = 'gone' where id = 3")
		want(values(), 8, 1, 1, 1, 0)
		g.to.set("ep_1", g.to.hangs)
		r := g.relay(nil, webhook.RelayConfig{})
		stop := run(t, r)
		g.to.waitFor(t, "ep_1", 1)
		harness.Until(t, func() error {
			if n := values(r)[gaugename.WebhookSlowRequests+" "]; n != 1 {
				return fmt.Errorf("%v requests are slow", n)
			}
			return nil
		})
		want(values(), 8, 1, 1, 1, 1)
		g.to.end()
		stop()
	})
}
