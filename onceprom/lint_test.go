package onceprom_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/oncelib/once"
	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/base/gaugename"
	"github.com/oncelib/once/internal/base/instrument"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/onceprom"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/webhook"
)

// TestPromtoolCheckMetrics: Prometheus finds nothing to object to in a scrape of all instruments.
func TestPromtoolCheckMetrics(t *testing.T) {
	testenv.Need(t, "promtool")
	promtool, err := testenv.Binary("promtool")
	must(t, err)
	var page string
	synctest.Test(t, func(t *testing.T) { page = exposition(t) })
	for _, in := range instrument.All {
		if !strings.Contains(page, "# TYPE "+in.Name+" ") {
			t.Errorf("%s is not on the page", in.Name)
		}
	}
	for _, in := range gauge.Instruments() {
		if !strings.Contains(page, "# TYPE "+in.Name+" ") {
			t.Errorf("%s is not on the page", in.Name)
		}
	}
	check := exec.CommandContext(t.Context(), promtool, "check", "metrics")
	check.Stdin = strings.NewReader(page)
	if said, err := check.CombinedOutput(); err != nil || len(said) > 0 {
		t.Errorf("%v\n%s", err, said)
	}
}

// exposition is what a server scrapes when every instrument has a value.
func exposition(t *testing.T) string {
	watch := gauge.NewWatch(gauge.Config{}, gauge.Func(func(context.Context) (all []gauge.Value, err error) {
		for _, in := range gauge.Instruments() {
			if in.Name != gaugename.Age { // it is the watch's own
				all = append(all, gauge.Value{Name: in.Name, Label: in.Label, Number: 1})
			}
		}
		return all, nil
	}))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { _ = watch.Run(ctx) }()
	synctest.Wait()
	m := onceprom.New(onceprom.Config{Gauges: watch})
	for _, e := range []once.Event{
		{Type: once.EventRerun, Deadlock: true},
		{Type: once.EventSettled},
		{Type: once.EventFinished, Outcome: once.OutcomeExecuted, Effect: once.EffectApplied, Runs: 1, Attempt: once.Attempt{Number: 2}, Acquire: 1, LockWait: 1, Handler: 1, Commit: 1, Total: 4},
	} {
		m.Observe(t.Context(), e)
	}
	outbox.Metrics(m).Observe(t.Context(), outbox.Event{Type: outbox.EventDelivered})
	inbox.Metrics(m).Observe(t.Context(), inbox.Event{Type: inbox.EventApplied})
	saga.Metrics(m).Observe(t.Context(), saga.Event{Type: saga.EventCompleted})
	saga.Metrics(m).Observe(t.Context(), saga.Event{Type: saga.EventRetried})
	webhook.RelayMetrics(m).Observe(t.Context(), webhook.RelayEvent{Type: webhook.EventTaken})
	retry.Metrics(m)(t.Context(), retry.Event{Type: retry.EventFailed, Wait: time.Second})
	retry.Metrics(m)(t.Context(), retry.Event{Type: retry.EventFailed, Stop: retry.ReasonExhausted})

	registry := prometheus.NewPedanticRegistry()
	must(t, registry.Register(m))
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}
