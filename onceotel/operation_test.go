package onceotel_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/onceotel"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
	"github.com/oncelib/once/store/storetest"
)

const key = "card 4111-1111" // that must not leak

var refund = once.Operation{Scope: "acme", Key: key, Name: "POST /refunds", Attempt: once.Attempt{Number: 2, CorrelationID: "order 7"}}

func pay(_ context.Context, t tx) (string, error) { return "paid", t.Put("refund", "1") }

func failing(err error) func(context.Context, tx) (string, error) {
	return func(context.Context, tx) (string, error) { return "", err }
}

// faulty returns a store that fails at points.
func faulty(points ...storetest.Point) store.Store[tx] {
	f := storetest.NewFaults(memstore.New())
	f.Arm(storetest.Plan{At: points})
	return f
}

// done is a store in which refund is done, with the fingerprint of a request, by a call with the traceparent of original.
func done(t *testing.T) *memstore.Store {
	t.Helper()
	s, op := memstore.New(), refund
	op.Fingerprint, op.Attempt.Trace = once.FingerprintOf([]byte("a")), original
	_, err := once.Do(t.Context(), once.New(s, once.Config{Observer: once.Discard}), op, pay)
	must(t, err)
	return s
}

const original = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// running is a store in which refund is held by another process, by a call with the traceparent of original.
func running(t *testing.T) *memstore.Store {
	t.Helper()
	s := memstore.New()
	_, err := s.Swap(t.Context(), store.Change{
		ID: store.ID{Scope: refund.Scope, Key: refund.Key}, Lease: time.Hour, Next: store.Record{State: store.StateRunning, Nonce: make([]byte, 16), Fence: 1, Trace: original},
	})
	must(t, err)
	return s
}

// TestEveryDecisionIsInASpan: what each outcome, effect and event of an operation looks like.
func TestEveryDecisionIsInASpan(t *testing.T) {
	another, old := refund, refund
	another.Fingerprint = once.FingerprintOf([]byte("b"))
	old.Attempt.FirstSent = time.Now().Add(-73 * time.Hour)
	for name, tt := range map[string]struct {
		store    store.Store[tx]
		op       once.Operation
		handler  func(context.Context, tx) (string, error)
		decision string
		effect   string
		runs     string
		events   []string
		failed   bool // its status is Error
		errored  string
		links    bool // to the original
	}{
		"executed":       {store: memstore.New(), decision: "new_execution", effect: "applied", runs: "1"},
		"declined":       {store: memstore.New(), handler: failing(&once.Failure{Code: "declined"}), decision: "new_execution", effect: "not_applied", runs: "1"},
		"declined, kept": {store: memstore.New(), handler: failing(&once.Failure{Code: "declined", CommitWrites: true}), decision: "new_execution", effect: "applied", runs: "1"},
		"failed":         {store: memstore.New(), handler: failing(errors.New("x")), decision: "failed", effect: "not_applied", runs: "1", errored: "failed"},
		"replayed":       {store: done(t), decision: "db_hit", effect: "applied", runs: "0", links: true},
		"mismatch":       {store: done(t), op: another, decision: "mismatch", effect: "not_applied", runs: "0", errored: "mismatch", links: true},
		"stale":          {store: memstore.New(), op: old, decision: "stale", effect: "not_applied", runs: "0", errored: "stale"},
		"in flight":      {store: running(t), decision: "in_flight", effect: "not_applied", runs: "0", errored: "in_flight", links: true},
		"refused":        {store: memstore.New(), op: once.Operation{Scope: "acme", Key: "\x00", Name: refund.Name}, decision: "refused", effect: "not_applied", runs: "0", errored: "invalid"},
		"unavailable":    {store: faulty(storetest.BeginDown), decision: "unavailable", effect: "not_applied", runs: "0", errored: "unavailable"},
		"conflict": {
			store: faulty(storetest.CommitRetry), decision: "conflict_retry", effect: "applied", runs: "2", events: []string{"once.rerun"},
		},
		"conflicts only": {
			store: memstore.New(), handler: failing(&store.Error{Kind: store.KindRetry, Err: errors.New("serialization failure")}),
			decision: "conflict_retry", effect: "not_applied", runs: "3", events: []string{"once.rerun", "once.rerun"}, errored: "conflict",
		},
		"settled, applied": {
			store: faulty(storetest.CommitLostApplied), decision: "new_execution", effect: "applied", runs: "1", events: []string{"once.in_doubt", "once.settled"},
		},
		"settled, not applied": {
			store: faulty(storetest.CommitLostUndone), decision: "conflict_retry", effect: "applied", runs: "2", events: []string{"once.in_doubt", "once.settled", "once.rerun"},
		},
		"effect outside": {
			store: memstore.New(), handler: failing(nil), decision: "new_execution", effect: "applied", runs: "1", events: []string{"once.effect_outside_tx"}, failed: true,
		},
		"misuse": {
			store: memstore.New(), handler: func(_ context.Context, t tx) (string, error) { return "", errors.Join(t.Put("x", "1"), t.Commit()) },
			decision: "refused", effect: "in_doubt", runs: "1", failed: true, errored: "misuse",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tel := newTelemetry(t, onceotel.Config{})
			e := once.New(tt.store, once.Config{Observer: tel})
			if tt.op.Key == "" {
				tt.op = refund
			}
			if tt.handler == nil {
				tt.handler = pay
			}
			_, _ = once.Do(t.Context(), e, tt.op, tt.handler)
			s := named(t, tel.take(), refund.Name)
			for name, want := range map[string]string{
				"once.operation": refund.Name, "once.decision": tt.decision, "once.effect": tt.effect, "once.runs": tt.runs,
				"once.key_hash": once.KeyHash(tt.op.Key), "error.type": tt.errored,
			} {
				if got := text(s.Attributes, name); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
			if got := text(s.Attributes, "once.attempt"); tt.op.Attempt.Number == 2 && got != "2" {
				t.Errorf("once.attempt is %q", got)
			}
			for _, name := range []string{"once.acquire_wait_ms", "once.lock_wait_ms", "once.commit_ms"} {
				if text(s.Attributes, name) == "" {
					t.Errorf("no %s", name)
				}
			}
			if got := events(&s); !slices.Equal(got, tt.events) {
				t.Errorf("events %q, want %q", got, tt.events)
			}
			if got := s.Status.Code == codes.Error; got != tt.failed {
				t.Errorf("status %v", s.Status)
			}
			if got := links(&s); tt.links != slices.Equal(got, []string{original}) || !tt.links && len(got) > 0 {
				t.Errorf("links to %q", got)
			}
			noKey(t, s)
			effects := 0.0
			for series, n := range tel.numbers() {
				if series == "once.operations{decision="+tt.decision+",effect="+tt.effect+",operation="+refund.Name+"}" {
					effects += n
				}
			}
			if effects != 1 {
				t.Errorf("counted %v times: %v", effects, tel.numbers())
			}
		})
	}
}

// links are the traceparents of the spans that a span links to.
func links(s *tracetest.SpanStub) (list []string) {
	for _, l := range s.Links {
		list = append(list, onceotel.Trace(trace.ContextWithSpanContext(context.Background(), l.SpanContext)))
	}
	return list
}

// noKey fails if a span tells the key.
func noKey(t *testing.T, s tracetest.SpanStub) {
	t.Helper()
	texts := []string{s.Name, s.Status.Description}
	for _, a := range s.Attributes {
		texts = append(texts, a.Value.String())
	}
	for _, e := range s.Events {
		for _, a := range e.Attributes {
			texts = append(texts, a.Value.String())
		}
	}
	for _, each := range texts {
		if strings.Contains(each, key) {
			t.Errorf("the span tells the key: %q", each)
		}
	}
}

// TestUnknownIsInASpan: the outcome of a call is not known.
func TestUnknownIsInASpan(t *testing.T) {
	t.Parallel()
	tel, s := newTelemetry(t, onceotel.Config{}), memstore.New()
	e := once.New(lease.New(s, lease.Config{}), once.Config{Observer: tel})
	for range 2 {
		_, err := once.Do(t.Context(), e, refund, func(ctx context.Context, run *lease.Run) (string, error) {
			return lease.Call(ctx, run, "charge", func(context.Context, string) (string, error) { return "", errors.New("timeout") }, lease.CallPolicy{})
		})
		if once.EffectOf(err) != once.EffectInDoubt {
			t.Fatal(err)
		}
	}
	spans := tel.take()
	if len(spans) != 2 {
		t.Fatalf("%d spans", len(spans))
	}
	last := spans[1]
	if got := text(last.Attributes, "once.decision"); got != "unknown" || last.Status.Code != codes.Error || text(last.Attributes, "once.effect") != "in_doubt" {
		t.Errorf("%s, %v", got, last.Status)
	}
	if got, first := links(&last), onceotel.Trace(trace.ContextWithSpanContext(t.Context(), spans[0].SpanContext)); !slices.Equal(got, []string{first}) {
		t.Errorf("links to %q, want %q", got, first)
	}
}

// TestReplayLinksToTheExecution: from the database and from the cache.
func TestReplayLinksToTheExecution(t *testing.T) {
	t.Parallel()
	tel, s := newTelemetry(t, onceotel.Config{}), memstore.New()
	for _, decision := range []string{"db_hit", "cache_hit"} {
		cfg, op := once.Config{Observer: tel}, refund
		op.Key = decision
		if decision == "cache_hit" {
			cfg.Cache = 1 << 20
		}
		e := once.New(s, cfg)
		for range 2 {
			_, err := once.Do(t.Context(), e, op, pay)
			must(t, err)
		}
		spans := tel.take()
		if len(spans) != 2 {
			t.Fatalf("%d spans", len(spans))
		}
		executed, replayed := spans[0], spans[1]
		if got := text(replayed.Attributes, "once.decision"); got != decision {
			t.Errorf("decision %s, want %s", got, decision)
		}
		if len(executed.Links) > 0 || len(replayed.Links) != 1 || replayed.Links[0].SpanContext.SpanID() != executed.SpanContext.SpanID() ||
			replayed.Links[0].SpanContext.TraceID() != executed.SpanContext.TraceID() {
			t.Errorf("%s: links of the execution %v, of the replay %v", decision, executed.Links, replayed.Links)
		}
		if executed.SpanContext.TraceID() == replayed.SpanContext.TraceID() {
			t.Error("both calls are one trace")
		}
	}
}

// TestSpanIsAChildOfTheServers: of the span in the context; without one, of the traceparent that the caller has sent.
func TestSpanIsAChildOfTheServers(t *testing.T) {
	t.Parallel()
	tel := newTelemetry(t, onceotel.Config{})
	e := once.New(memstore.New(), once.Config{Observer: tel})
	op := refund
	op.Attempt.Trace = original
	var inHandler trace.SpanContext
	do := func(ctx context.Context) tracetest.SpanStub {
		_, err := once.Do(ctx, e, op, func(ctx context.Context, t tx) (string, error) {
			inHandler = trace.SpanContextFromContext(ctx)
			return pay(ctx, t)
		})
		must(t, err)
		return named(t, tel.take(), refund.Name)
	}
	s := do(t.Context())
	if got := onceotel.Trace(trace.ContextWithSpanContext(t.Context(), s.Parent)); got != original || !s.Parent.IsRemote() {
		t.Errorf("the parent is %q, remote %v", got, s.Parent.IsRemote())
	}
	if inHandler.SpanID() != s.SpanContext.SpanID() {
		t.Error("the handler is not in the span")
	}
	op.Key = "another"
	ctx, server := tel.provider.Tracer("server").Start(t.Context(), "server")
	s = do(ctx)
	if s.Parent.SpanID() != server.SpanContext().SpanID() {
		t.Errorf("the parent is %v", s.Parent)
	}
}

// TestObserverWithoutAStartEndsNoSpan: an event of an engine that has another observer in front is not about the span in the context.
func TestObserverWithoutAStartEndsNoSpan(t *testing.T) {
	t.Parallel()
	tel := newTelemetry(t, onceotel.Config{})
	ctx, server := tel.provider.Tracer("server").Start(t.Context(), "server")
	tel.Observe(ctx, once.Event{Type: once.EventFinished, Name: "x", Outcome: once.OutcomeExecuted})
	if !server.IsRecording() || len(tel.take()) > 0 {
		t.Error("the span of the server has ended")
	}
}

// TestTwoTelemetries: each has spans of its own, and ends no span of the other one.
func TestTwoTelemetries(t *testing.T) {
	t.Parallel()
	one, two := newTelemetry(t, onceotel.Config{}), newTelemetry(t, onceotel.Config{})
	e := once.New(memstore.New(), once.Config{Observer: once.Observers(one, two)})
	for range 2 {
		_, err := once.Do(t.Context(), e, refund, pay)
		must(t, err)
	}
	for _, tel := range []*telemetry{one, two} {
		if spans := tel.take(); len(spans) != 2 || text(spans[0].Attributes, "once.decision") != "new_execution" || text(spans[1].Attributes, "once.decision") != "db_hit" {
			t.Errorf("%+v", spans)
		}
	}
}

// TestPanicEndsTheSpan: the span of an operation whose handler panics is exported.
func TestPanicEndsTheSpan(t *testing.T) {
	t.Parallel()
	tel := newTelemetry(t, onceotel.Config{})
	e := once.New(memstore.New(), once.Config{Observer: tel})
	func() {
		defer func() { _ = recover() }()
		_, _ = once.Do(t.Context(), e, refund, func(context.Context, tx) (string, error) { panic("x") })
	}()
	if s := named(t, tel.take(), refund.Name); text(s.Attributes, "once.decision") != "failed" {
		t.Errorf("%v", s.Attributes)
	}
}
