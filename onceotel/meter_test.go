package onceotel_test

import (
	"context"
	"strconv"
	"testing"

	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/oncelib/once"
	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/internal/base/gaugename"
	"github.com/oncelib/once/internal/base/instrument"
	"github.com/oncelib/once/onceotel"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// TestInstrumentsAreThoseOfTheTable: the names, units and labels of package instrument, and the numbers of a busy engine.
func TestInstrumentsAreThoseOfTheTable(t *testing.T) {
	t.Parallel()
	tel := newTelemetry(t, onceotel.Config{})
	e := once.New(memstore.New(), once.Config{Observer: tel})
	for range 3 {
		_, err := once.Do(t.Context(), e, refund, pay)
		must(t, err)
	}
	numbers := tel.numbers()
	for series, want := range map[string]float64{
		"once.operations{decision=new_execution,effect=applied,operation=POST /refunds}": 1,
		"once.operations{decision=db_hit,effect=applied,operation=POST /refunds}":        2,
		"once.retries{operation=POST /refunds}":                                          3,
		"once.operation.duration{decision=db_hit,operation=POST /refunds}":               2,
		"once.handler.duration{operation=POST /refunds}":                                 1,
		"once.mismatches{operation=POST /refunds}":                                       0,
	} {
		if got, ok := numbers[series]; !ok || got != want {
			t.Errorf("%s is %v, want %v", series, got, want)
		}
	}
	known := map[string]instrument.Instrument{}
	for _, in := range instrument.All {
		known[in.OTel] = in
	}
	var all metricdata.ResourceMetrics
	must(t, tel.reader.Collect(context.Background(), &all))
	for _, m := range all.ScopeMetrics[0].Metrics {
		if in, ok := known[m.Name]; !ok || in.Unit != m.Unit || in.Help != m.Description {
			t.Errorf("%s in %s is not in the table", m.Name, m.Unit)
		}
	}
}

// TestSeriesAreBounded: keys and tenants are no labels, and names are counted as "other" from the 101st on.
func TestSeriesAreBounded(t *testing.T) {
	t.Parallel()
	tel := newTelemetry(t, onceotel.Config{}, trace.WithSampler(trace.NeverSample()))
	observe := func(name, scope string) {
		tel.Observe(t.Context(), once.Event{
			Type: once.EventFinished, Name: name, Scope: scope, KeyHash: once.KeyHash(scope), Outcome: once.OutcomeExecuted, Effect: once.EffectApplied, Runs: 1,
		})
	}
	observe("pay", "tenant")
	before := len(tel.numbers())
	for i := range 100_000 {
		observe("pay", strconv.Itoa(i))
	}
	if after := len(tel.numbers()); after != before {
		t.Errorf("%d series after 100,000 tenants, %d before", after, before)
	}
	for i := range 10_000 {
		observe(strconv.Itoa(i), "tenant")
	}
	numbers := tel.numbers()
	if len(numbers) > 101*before {
		t.Errorf("%d series of 10,000 names, %d of one", len(numbers), before)
	}
	if n := numbers["once.operations{decision=new_execution,effect=applied,operation=other}"]; n != 10_000-99 {
		t.Errorf("%v operations of other names", n)
	}
}

// TestGaugesAreThoseOfTheWatch: their last values, with the label that they have.
func TestGaugesAreThoseOfTheWatch(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	n := 0
	source := gauge.Func(func(context.Context) ([]gauge.Value, error) {
		n++ // a race, if a collection asked the source
		defer close(asked)
		return []gauge.Value{
			{Name: gaugename.OutboxMessages, Number: 7}, {Name: gaugename.CacheHits, Number: 3}, {Name: gaugename.PoolConnections, Label: "idle", Number: 2},
		}, nil
	})
	watch := gauge.NewWatch(gauge.Config{}, source)
	tel := newTelemetry(t, onceotel.Config{Gauges: watch})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- watch.Run(ctx) }()
	<-asked
	stop()
	<-ended
	numbers := tel.numbers()
	for series, want := range map[string]float64{"once.outbox.messages{}": 7, "once.cache.hits{}": 3, "once.pool.connections{state=idle}": 2} {
		if numbers[series] != want {
			t.Errorf("%s is %v, want %v", series, numbers[series], want)
		}
	}
	if _, ok := numbers["once.watch.age{}"]; !ok || tel.numbers()["once.outbox.messages{}"] != 7 || n != 1 {
		t.Errorf("%v, the source was asked %d times", numbers, n)
	}
}

// TestExemplarsNameTheTrace: a slow operation is found by its trace.
func TestExemplarsNameTheTrace(t *testing.T) {
	t.Parallel()
	tel := newTelemetry(t, onceotel.Config{})
	e := once.New(memstore.New(), once.Config{Observer: tel})
	_, err := once.Do(t.Context(), e, refund, pay)
	must(t, err)
	id := named(t, tel.take(), refund.Name).SpanContext.TraceID()
	var all metricdata.ResourceMetrics
	must(t, tel.reader.Collect(context.Background(), &all))
	for _, m := range all.ScopeMetrics[0].Metrics {
		h, ok := m.Data.(metricdata.Histogram[float64])
		if !ok || m.Name != "once.operation.duration" {
			continue
		}
		if x := h.DataPoints[0].Exemplars; len(x) != 1 || string(x[0].TraceID) != string(id[:]) {
			t.Errorf("exemplars %v, want trace %v", x, id)
		}
		return
	}
	t.Error("no durations")
}

// TestZeroConfig: the providers of the process, which by default do nothing. What a caller has sent as its trace is stored.
func TestZeroConfig(t *testing.T) {
	t.Parallel()
	tel, err := onceotel.New(onceotel.Config{})
	must(t, err)
	s, op := memstore.New(), refund
	op.Attempt.Trace = original
	_, err = once.Do(t.Context(), once.New(s, once.Config{Observer: tel}), op, pay)
	must(t, err)
	rec, err := s.Read(t.Context(), store.ID{Scope: op.Scope, Key: op.Key})
	must(t, err)
	if rec.Trace != original {
		t.Errorf("trace %q is stored", rec.Trace)
	}
	_, err = onceotel.New(onceotel.Config{MeterProvider: noop.NewMeterProvider()})
	must(t, err)
	if got := onceotel.Trace(t.Context()); got != "" {
		t.Errorf("the trace of a context without one is %q", got)
	}
}
