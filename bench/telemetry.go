package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/oncelib/once"
	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/internal/base/gaugename"
	"github.com/oncelib/once/onceotel"
	"github.com/oncelib/once/onceprom"
	"github.com/oncelib/once/store/memstore"
	"github.com/oncelib/once/store/pgxstore"
)

// The cost of observers. Each contestant is an engine of its own on the same pool.

const (
	nameUnobserved        = "Do, no observer"
	nameCounted           = "Do, onceprom"
	nameUnobservedReplays = "replays, no observer"
	nameCountedReplays    = "replays, onceprom"
	nameTraced            = "Do, onceprom and onceotel, 1 % sampled"
	nameTracedReplays     = "replays, onceprom and onceotel, 1 % sampled"
)

const (
	telemetryBar   = 0.97
	telemetryNames = 20 // operations that a process has
	sampledRatio   = 0.01
	scrapes        = 200
	scrapeBar      = 5 // milliseconds
)

// telemetry has the costs of metrics and traces.
type telemetry struct {
	throughput

	Allocs verdict     `json:"allocations"`        // more in one Do on memstore than without an observer
	Traced verdict     `json:"traced_allocations"` // likewise, with spans that are not sampled
	Scrape scrapeTimes `json:"scrape"`
}

// scrapeTimes are the times of scrapes of a busy process, from the request to the last byte, with gzip.
type scrapeTimes struct {
	Series int     `json:"series"`
	Time   verdict `json:"time_ms"`
	Most   float64 `json:"most_ms"`
}

func (b *bench) telemetry(ctx context.Context) (*telemetry, error) {
	s := setting{slug: "telemetry", title: "Observers, 16 clients", clients: 16}
	database, err := b.server.newDatabase(ctx)
	if err != nil {
		return nil, err
	}
	pool, plain, err := b.server.prepare(ctx, database, recent, s)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	t := &telemetry{throughput: throughput{Slug: s.slug, Title: s.title}}
	if t.RoundTrip, err = roundTrip(ctx, pool); err != nil {
		return nil, err
	}
	watch := gauge.NewWatch(gauge.Config{Every: time.Second}, poolGauges(pool))
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go func() { _ = watch.Run(watching) }()
	metrics := onceprom.New(onceprom.Config{Gauges: watch})
	observed := func(o once.Observer) *candidate {
		return &candidate{pool: pool, engine: once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{Observer: o}), known: plain.known}
	}
	spans := trace.NewTracerProvider(trace.WithSampler(trace.TraceIDRatioBased(sampledRatio)), trace.WithBatcher(discardSpans{}))
	defer func() { _ = spans.Shutdown(context.WithoutCancel(ctx)) }() // nothing is sent
	tel, err := onceotel.New(onceotel.Config{TracerProvider: spans, MeterProvider: noop.NewMeterProvider()})
	if err != nil {
		return nil, err
	}
	none, counted, traced := observed(once.Discard), observed(metrics), observed(once.Observers(tel, metrics))
	r := race{s.clients, b.rounds, b.slice, b.server.cpu(), []*contestant{
		{name: nameUnobserved, run: none.named}, {name: nameCounted, run: counted.named}, {name: nameTraced, run: traced.named},
		{name: nameUnobservedReplays, run: none.recentReplays}, {name: nameCountedReplays, run: counted.recentReplays}, {name: nameTracedReplays, run: traced.recentReplays},
	}}
	if err := r.run(ctx); err != nil {
		return nil, err
	}
	for _, c := range r.field {
		t.Figures = append(t.Figures, c.figure())
	}
	for _, c := range []comparison{{nameCounted, nameUnobserved, telemetryBar}, {nameTraced, nameUnobserved, telemetryBar}, {nameCountedReplays, nameUnobservedReplays, 0}, {nameTracedReplays, nameUnobservedReplays, 0}} {
		t.Verdicts = append(t.Verdicts, judge(r.field, c))
	}
	if t.Allocs, err = allocations(ctx, onceprom.New(onceprom.Config{}), "allocations of a Do that is counted, beyond one without an observer"); err != nil {
		return nil, err
	}
	if t.Traced, err = allocationsOfSpans(ctx); err != nil {
		return nil, err
	}
	t.Scrape, err = scrape(ctx, metrics, counted)
	return t, err
}

// named executes under the names of a process.
func (c *candidate) named(ctx context.Context) error {
	o := newOrder()
	op := newOperation(once.NewKey(), o)
	op.Name = "POST /charges/" + strconv.Itoa(rand.N(telemetryNames))
	return c.execute(ctx, op, o)
}

func poolGauges(pool *pgxpool.Pool) gauge.Func {
	return func(context.Context) ([]gauge.Value, error) {
		s := pool.Stat()
		return []gauge.Value{
			{Name: gaugename.PoolConnections, Label: "in_use", Number: float64(s.AcquiredConns())},
			{Name: gaugename.PoolConnections, Label: "idle", Number: float64(s.IdleConns())},
		}, nil
	}
}

// discardSpans replaces an exporter: the cost of a collector is not measured.
type discardSpans struct{}

func (discardSpans) ExportSpans(context.Context, []trace.ReadOnlySpan) error { return nil }

func (discardSpans) Shutdown(context.Context) error { return nil }

// allocationsOfSpans is the number of additional allocations of a Do whose span is not sampled.
func allocationsOfSpans(ctx context.Context) (verdict, error) {
	tel, err := onceotel.New(onceotel.Config{TracerProvider: trace.NewTracerProvider(trace.WithSampler(trace.NeverSample())), MeterProvider: noop.NewMeterProvider()})
	if err != nil {
		return verdict{}, err
	}
	return allocations(ctx, tel, "allocations of a Do whose span is not sampled, beyond one without an observer")
}

// allocations is the number of additional allocations of a Do with the observer o.
func allocations(ctx context.Context, o once.Observer, what string) (verdict, error) {
	of := func(o once.Observer) (float64, error) {
		e := once.New(memstore.New(), once.Config{Observer: o})
		const n = 20_000
		var before, after runtime.MemStats
		for _, m := range []*runtime.MemStats{&before, &after} {
			for i := range n {
				op := once.Operation{Name: "POST /charges", Scope: scope, Key: fmt.Sprint(m == &after, i)}
				if _, err := once.Do(ctx, e, op, func(_ context.Context, tx *memstore.Tx) (int, error) { return 1, tx.Put("row", "1") }); err != nil {
					return 0, err
				}
			}
			runtime.ReadMemStats(m)
		}
		return float64(after.Mallocs-before.Mallocs) / n, nil
	}
	none, err := of(once.Discard)
	observed, err2 := of(o)
	more := observed - none
	v := verdict{What: what, Median: more, Min: more, Max: more, Bar: 10, AtMost: true}
	return v.judged(), errors.Join(err, err2)
}

// scrape measures scrapes of a process with clients.
func scrape(ctx context.Context, metrics *onceprom.Metrics, c *candidate) (s scrapeTimes, err error) {
	registry := prometheus.NewRegistry()
	if err := registry.Register(metrics); err != nil {
		return s, err
	}
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	families, err := registry.Gather()
	if err != nil {
		return s, err
	}
	for _, f := range families {
		s.Series += len(f.GetMetric())
	}
	var over atomic.Bool
	var busy sync.WaitGroup
	failed := make([]error, 16)
	for i := range failed {
		busy.Go(func() {
			for !over.Load() && failed[i] == nil {
				failed[i] = c.named(ctx)
			}
		})
	}
	took := make([]float64, 0, scrapes)
	for range scrapes {
		request := httptest.NewRequestWithContext(ctx, http.MethodGet, "/metrics", nil)
		request.Header.Set("Accept-Encoding", "gzip")
		began := time.Now()
		handler.ServeHTTP(httptest.NewRecorder(), request)
		took = append(took, time.Since(began).Seconds()*1000)
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	over.Store(true)
	busy.Wait()
	slices.Sort(took)
	s.Time = verdict{What: "a scrape in ms, to its 99th percentile", Median: took[scrapes/2], Min: took[0], Max: took[scrapes*99/100], Bar: scrapeBar, AtMost: true}.judged()
	s.Most = took[scrapes-1]
	return s, errors.Join(failed...)
}

func (r *report) writeTelemetry(p printer) {
	t := r.Telemetry
	p("\n## Observers\n")
	p("Engines on one pool, with 16 clients and %d names of operations: one with `once.Discard`, one with `onceprom`, whose gauges are read every second, one with `onceotel` beside it, which samples 1 %% of the traces and whose exporter discards them.", telemetryNames)
	t.write(p)
	p("\n| beside that | median | bar | |")
	p("|---|---|---|---|")
	p("| %s | %s |", t.Allocs.What, t.Allocs.cells())
	p("| %s | %s |", t.Traced.What, t.Traced.cells())
	p("| %s, %d series, all clients at work; the slowest of %d took %.2f ms | %s |", t.Scrape.Time.What, t.Scrape.Series, scrapes, t.Scrape.Most, t.Scrape.Time.cells())
}
