package onceprom_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/oncelib/once"
	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/base/gaugename"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/onceprom"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
	"github.com/oncelib/once/store/storetest"
)

// TestEveryDecisionIsCounted: with its effect, by a real engine. What was executed is what the store holds.
func TestEveryDecisionIsCounted(t *testing.T) {
	fail := func(err error) func(context.Context, tx) (string, error) {
		return func(context.Context, tx) (string, error) { return "", err }
	}
	done := store.Record{State: store.StateDone, Result: store.Result{Body: []byte(`"done"`)}}
	mine, other := once.FingerprintOf([]byte("a")), once.FingerprintOf([]byte("b"))
	for _, tt := range []struct {
		name    string
		found   *store.Record // what stands there already
		fault   storetest.Point
		op      once.Operation
		handler func(context.Context, tx) (string, error)
		want    map[string]float64
		effects string
	}{
		{"executed", nil, "", once.Operation{}, put("row"), map[string]float64{"operations_total{decision=new_execution,effect=applied,operation=pay}": 1}, "1"},
		{"declined", nil, "", once.Operation{}, fail(&once.Failure{Code: "declined"}), map[string]float64{"operations_total{decision=new_execution,effect=not_applied,operation=pay}": 1}, ""},
		{"replayed", &done, "", once.Operation{}, put("row"), map[string]float64{"operations_total{decision=db_hit,effect=applied,operation=pay}": 1}, ""},
		{"a retry", &done, "", once.Operation{Attempt: once.Attempt{Number: 2}}, put("row"), map[string]float64{"operations_total{decision=db_hit,effect=applied,operation=pay}": 1, "retries_total{operation=pay}": 1}, ""},
		{
			"conflict", nil, storetest.CommitRetry, once.Operation{}, put("row"),
			map[string]float64{"operations_total{decision=conflict_retry,effect=applied,operation=pay}": 1, "reruns_total{operation=pay}": 1}, "1",
		},
		{
			"conflict in each run", nil, "", once.Operation{}, fail(&store.Error{Kind: store.KindRetry, Err: errors.New("serialization failure")}),
			map[string]float64{"operations_total{decision=conflict_retry,effect=not_applied,operation=pay}": 1, "reruns_total{operation=pay}": 2}, "",
		},
		{"in flight", &store.Record{State: store.StateRunning, Fence: 1}, "", once.Operation{}, put("row"), map[string]float64{"operations_total{decision=in_flight,effect=not_applied,operation=pay}": 1}, ""},
		{
			"mismatch", &store.Record{State: store.StateDone, Fingerprint: other[:]}, "", once.Operation{Fingerprint: mine}, put("row"),
			map[string]float64{"operations_total{decision=mismatch,effect=not_applied,operation=pay}": 1, "mismatches_total{operation=pay}": 1}, "",
		},
		{"stale", nil, "", once.Operation{Attempt: once.Attempt{FirstSent: time.Now().Add(-100 * time.Hour)}}, put("row"), map[string]float64{"operations_total{decision=stale,effect=not_applied,operation=pay}": 1}, ""},
		{"unknown", &store.Record{State: store.StateUnknown, Fence: 1}, "", once.Operation{}, put("row"), map[string]float64{"operations_total{decision=unknown,effect=in_doubt,operation=pay}": 1}, ""},
		{"failed", nil, "", once.Operation{}, fail(errors.New("down")), map[string]float64{"operations_total{decision=failed,effect=not_applied,operation=pay}": 1}, ""},
		{"unavailable", nil, storetest.BeginDown, once.Operation{}, put("row"), map[string]float64{"operations_total{decision=unavailable,effect=not_applied,operation=pay}": 1}, ""},
		{"refused", nil, "", once.Operation{Key: "\x00"}, put("row"), map[string]float64{"operations_total{decision=refused,effect=not_applied,operation=pay}": 1}, ""},
		{
			"misuse", nil, "", once.Operation{}, func(_ context.Context, tx tx) (string, error) { return "", tx.Commit() },
			map[string]float64{"operations_total{decision=refused,effect=in_doubt,operation=pay}": 1, "effects_outside_total{operation=pay}": 1}, "",
		},
		{
			"lost and applied", nil, storetest.CommitLostApplied, once.Operation{}, put("row"),
			map[string]float64{"operations_total{decision=new_execution,effect=applied,operation=pay}": 1, "in_doubt_total{operation=pay}": 1, "settled_total{effect=applied,operation=pay}": 1}, "1",
		},
		{
			"lost and undone", nil, storetest.CommitLostUndone, once.Operation{}, put("row"),
			map[string]float64{
				"operations_total{decision=conflict_retry,effect=applied,operation=pay}": 1, "in_doubt_total{operation=pay}": 1, "settled_total{effect=not_applied,operation=pay}": 1, "reruns_total{operation=pay}": 1,
			}, "1",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := memstore.New()
			if tt.found != nil {
				tt.found.Nonce = make([]byte, 16)
				_, err := s.Swap(t.Context(), store.Change{ID: store.ID{Scope: "s", Key: "k"}, Next: *tt.found, Lease: time.Minute, Retain: time.Hour})
				must(t, err)
			}
			f := storetest.NewFaults(s)
			if tt.fault != "" {
				f.Arm(storetest.Plan{At: []storetest.Point{tt.fault}})
			}
			m := onceprom.New(onceprom.Config{})
			tt.op.Scope, tt.op.Name = "s", "pay"
			if tt.op.Key == "" {
				tt.op.Key = "k"
			}
			_, _ = once.Do(t.Context(), once.New[tx](f, once.Config{Observer: m}), tt.op, tt.handler)
			want(t, only(scrape(t, m), "operations", "retries", "reruns", "mismatches", "in_doubt", "settled", "effects", "deadlocks"), tt.want)
			if v, _ := s.Get("row"); v != tt.effects {
				t.Errorf("the store holds %q effects, want %q", v, tt.effects)
			}
		})
	}
}

// TestCacheHitIsCounted: apart from what the database has answered.
func TestCacheHitIsCounted(t *testing.T) {
	m := onceprom.New(onceprom.Config{})
	e := once.New(memstore.New(), once.Config{Observer: m, Cache: 1 << 20})
	for range 3 {
		_, err := once.Do(t.Context(), e, once.Operation{Name: "pay", Scope: "s", Key: "k"}, put("row"))
		must(t, err)
	}
	want(t, only(scrape(t, m), "operations"), map[string]float64{
		"operations_total{decision=new_execution,effect=applied,operation=pay}": 1,
		"operations_total{decision=cache_hit,effect=applied,operation=pay}":     2,
	})
}

// TestRareCountersAreExportedAtZero: so that a server sees the first one as an increase.
func TestRareCountersAreExportedAtZero(t *testing.T) {
	m := onceprom.New(onceprom.Config{})
	m.Observe(t.Context(), once.Event{Type: once.EventClaimed, Name: "pay"})
	got := scrape(t, m)
	for _, name := range []string{"retries", "reruns", "deadlocks", "mismatches", "in_doubt", "effects_outside"} {
		if v, ok := got[name+"_total{operation=pay}"]; !ok || v != 0 {
			t.Errorf("%s: %v, there: %v", name, v, ok)
		}
	}
}

// TestOtherObservers: relays, inboxes, sagas and the retry client count, too.
func TestOtherObservers(t *testing.T) {
	m := onceprom.New(onceprom.Config{})
	outbox.Metrics(m).Observe(t.Context(), outbox.Event{Type: outbox.EventDelivered, Message: message.Message{Topic: "paid"}})
	inbox.Metrics(m).Observe(t.Context(), inbox.Event{Type: inbox.EventApplied, Message: message.Message{Source: "shop"}})
	for _, e := range []saga.EventType{saga.EventCompleted, saga.EventCompensated, saga.EventStuck, saga.EventRetried, saga.EventTaken} {
		saga.Metrics(m).Observe(t.Context(), saga.Event{Type: e, Saga: "order", Step: "charge", StepKey: "a"})
	}
	failed := 0
	p := retry.Policy{Base: -1, Observe: retry.Metrics(m)}
	must(t, retry.Do(t.Context(), &p, func(context.Context, int) error {
		if failed++; failed < 3 {
			return errors.New("down")
		}
		return nil
	}))
	want(t, only(scrape(t, m), "outbox", "inbox", "saga", "retry"), map[string]float64{
		"outbox_deliveries_total{result=delivered,topic=paid}":       1,
		"inbox_messages_total{result=applied,source=shop}":           1,
		"sagas_total{result=completed,saga=order}":                   1,
		"sagas_total{result=compensated,saga=order}":                 1,
		"sagas_total{result=stuck,saga=order}":                       1,
		"saga_retries_total{saga=order,step=charge}":                 1,
		"retry_attempts_total{class=unknown,destination=(default)}":  2,
		"retry_calls_total{destination=(default),outcome=succeeded}": 1,
		"retry_delay_seconds{destination=(default)}":                 2,
	})
}

// TestSeriesAreConstant: 100,000 keys and tenants are as many series as one of each, and 10,000 names of operations are
// as many as 101. Calls come from several goroutines.
func TestSeriesAreConstant(t *testing.T) {
	finished := func(name, scope, key string) once.Event {
		return once.Event{
			Type: once.EventFinished, Outcome: once.OutcomeExecuted, Effect: once.EffectApplied, Name: name, Scope: scope, KeyHash: key, Runs: 1,
			Attempt: once.Attempt{RequestID: key, CorrelationID: key}, Acquire: 1, LockWait: 1, Handler: 1, Commit: 1, Total: 4,
		}
	}
	observe := func(m *onceprom.Metrics, n int, event func(i string) once.Event) {
		var all sync.WaitGroup
		for g := range 4 {
			all.Go(func() {
				for i := g; i < n; i += 4 {
					m.Observe(t.Context(), event(strconv.Itoa(i)))
				}
			})
		}
		all.Wait()
	}
	m := onceprom.New(onceprom.Config{})
	observe(m, 1, func(i string) once.Event { return finished("pay", "tenant "+i, i) })
	one := len(scrape(t, m))
	observe(m, 100_000, func(i string) once.Event { return finished("pay", "tenant "+i, i) })
	got := scrape(t, m)
	if n := len(got); n != one {
		t.Errorf("%d series of 100,000 keys and tenants, %d of one", n, one)
	}
	if n := got["operations_total{decision=new_execution,effect=applied,operation=pay}"]; n != 100_001 {
		t.Errorf("%v were counted", n)
	}

	m = onceprom.New(onceprom.Config{})
	observe(m, 10_000, func(i string) once.Event { return finished(i, "s", "k") })
	names, counted := 0, 0.0
	for _, v := range only(scrape(t, m), "operations_total") {
		names++
		counted += v
	}
	if names != 101 || counted != 10_000 {
		t.Errorf("%d names with %v calls, want 100, one for the others, and all calls", names, counted)
	}
}

// TestScrapeAsksNoSource: a gauge is read in the background; a scrape gets the last values, and none that are stale.
func TestScrapeAsksNoSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked, down atomic.Int64
		watch := gauge.NewWatch(gauge.Config{}, gauge.Func(func(context.Context) ([]gauge.Value, error) {
			asked.Add(1)
			if down.Load() > 0 {
				return nil, errors.New("down")
			}
			return []gauge.Value{
				{Name: gaugename.DeadLetters, Number: 3}, {Name: gaugename.CacheHits, Number: 4}, {Name: gaugename.PoolConnections, Label: "idle", Number: 5},
			}, nil
		}))
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { _ = watch.Run(ctx) }()
		synctest.Wait()
		m := onceprom.New(onceprom.Config{Gauges: watch})
		for range 100 {
			want(t, scrape(t, m), map[string]float64{"dead_letters{}": 3, "cache_hits_total{}": 4, "pool_connections{state=idle}": 5, "watch_age_seconds{}": 0})
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("the source was asked %d times", n)
		}
		if kind := gather(t, m)[gaugename.CacheHits].GetType(); kind != dto.MetricType_COUNTER {
			t.Errorf("%s is a %s", gaugename.CacheHits, kind)
		}
		down.Store(1)
		<-time.After(time.Minute)
		synctest.Wait()
		want(t, scrape(t, m), map[string]float64{"watch_age_seconds{}": 60})
	})
}

const traceID = "0af7651916cd43dd8448eb211c80319c"

// TestExemplarsNameTheTrace: an executed call names its trace, if that is kept. A replay does not name the trace of another call.
func TestExemplarsNameTheTrace(t *testing.T) {
	exemplars := func(m *onceprom.Metrics) (ids []string) {
		for _, series := range gather(t, m)["once_operation_duration_seconds"].GetMetric() {
			for _, b := range series.GetHistogram().GetBucket() {
				if x := b.GetExemplar(); x != nil {
					ids = append(ids, x.GetLabel()[0].GetName()+"="+x.GetLabel()[0].GetValue())
				}
			}
		}
		return ids
	}
	type key struct{}
	for _, tt := range []struct {
		name  string
		cfg   onceprom.Config
		trace string
		calls int
		want  string
	}{
		{"kept", onceprom.Config{}, "00-" + traceID + "-b7ad6b7169203331-01", 1, "trace_id=" + traceID},
		{"and a replay", onceprom.Config{}, "00-" + traceID + "-b7ad6b7169203331-01", 2, "trace_id=" + traceID},
		{"not sampled", onceprom.Config{}, "00-" + traceID + "-b7ad6b7169203331-00", 1, ""},
		{"none", onceprom.Config{}, "", 1, ""},
		{"not one", onceprom.Config{}, "00-" + traceID + "-b7ad6b7169203331-zz", 1, ""},
		{"of the context", onceprom.Config{TraceID: func(ctx context.Context) string { id, _ := ctx.Value(key{}).(string); return id }}, "", 1, "trace_id=mine"},
		{"as long as may be", onceprom.Config{TraceID: func(context.Context) string { return strings.Repeat("x", 120) }}, "", 1, "trace_id=" + strings.Repeat("x", 120)},
		{"too long", onceprom.Config{TraceID: func(context.Context) string { return strings.Repeat("x", 121) }}, "", 1, ""},
		{"no text", onceprom.Config{TraceID: func(context.Context) string { return "\xff" }}, "", 1, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := onceprom.New(tt.cfg)
			e := once.New(memstore.New(), once.Config{Observer: m})
			for range tt.calls {
				_, err := once.Do(context.WithValue(t.Context(), key{}, "mine"), e, once.Operation{Scope: "s", Key: "k", Attempt: once.Attempt{Trace: tt.trace}}, put("row"))
				must(t, err)
			}
			if got := strings.Join(exemplars(m), " "); got != tt.want {
				t.Errorf("exemplars %q, want %q", got, tt.want)
			}
		})
	}
}

// TestHistogramsAreOfBothKinds: classic for every server, native for those that scrape it.
func TestHistogramsAreOfBothKinds(t *testing.T) {
	m := onceprom.New(onceprom.Config{})
	m.Observe(t.Context(), once.Event{Type: once.EventFinished, Outcome: once.OutcomeExecuted, Total: time.Second})
	h := gather(t, m)["once_operation_duration_seconds"].GetMetric()[0].GetHistogram()
	if len(h.GetBucket()) == 0 || len(h.GetPositiveSpan()) == 0 {
		t.Errorf("%d classic buckets and %d native spans", len(h.GetBucket()), len(h.GetPositiveSpan()))
	}
}

// TestObservingAllocatesNothing: once the series of an operation are there.
func TestObservingAllocatesNothing(t *testing.T) {
	m := onceprom.New(onceprom.Config{})
	e := once.Event{Type: once.EventFinished, Outcome: once.OutcomeExecuted, Effect: once.EffectApplied, Name: "pay", Runs: 1, Acquire: 1, LockWait: 1, Handler: 1, Commit: 1, Total: 4}
	if n := testing.AllocsPerRun(1000, func() { m.Observe(t.Context(), e) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
