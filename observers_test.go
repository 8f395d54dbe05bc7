package once_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
	"github.com/oncelib/once/store/storetest"
)

// TestObserverSeesStates: where a call has found and left its operation is said only
// where it is known.
func TestObserverSeesStates(t *testing.T) {
	pay := charge("k")
	fail := func(err error) handler { return func(context.Context, tx) (string, error) { return "", err } }
	mine := once.FingerprintOf([]byte("a"))
	other := append([]byte{mine[0]}, make([]byte, 32)...)
	empty := func() store.Store[tx] { return memstore.New() }
	for _, tt := range []struct {
		name  string
		store func() store.Store[tx]
		op    once.Operation
		h     handler
		want  string
	}{
		{"executed", empty, once.Operation{}, pay, "absent done"},
		{"declined", empty, once.Operation{}, fail(&once.Failure{Code: "x"}), "absent done"},
		{"failed", empty, once.Operation{}, fail(errors.New("x")), "absent absent"},
		{"panic", empty, once.Operation{}, func(context.Context, tx) (string, error) { panic("x") }, "absent absent"},
		{"ended", empty, once.Operation{}, func(_ context.Context, t tx) (string, error) { return "", t.Commit() }, "absent "},
		{"invalid", empty, once.Operation{Key: "\x00"}, pay, " "},
		{"replayed", with(store.Record{State: store.StateDone, Result: store.Result{Body: []byte(`"v"`)}}), once.Operation{}, pay, "done done"},
		{"no result", with(store.Record{State: store.StateDone, Result: store.Result{Kind: store.ResultOmitted}}), once.Operation{}, pay, "done done"},
		{"mismatch", with(store.Record{State: store.StateDone, Fingerprint: other}), once.Operation{Fingerprint: mine}, pay, "done done"},
		{"mismatch with unknown", with(store.Record{State: store.StateUnknown, Fence: 1, Fingerprint: other}), once.Operation{Fingerprint: mine}, pay, "unknown unknown"},
		{"unknown", with(store.Record{State: store.StateUnknown, Fence: 1}), once.Operation{}, pay, "unknown unknown"},
		{"lapsed while calling", with(store.Record{State: store.StateRunning, Fence: 1, CallStarted: true}), once.Operation{}, pay, "running running"},
		{"in flight", with(store.Record{State: store.StateRunning, Fence: 1}), once.Operation{}, pay, "running running"},
		{"store down", faulty(storetest.BeginDown), once.Operation{}, pay, " "},
		{"commit not reached", faulty(storetest.CommitDown), once.Operation{}, pay, "absent absent"},
		{"lost, applied", faulty(storetest.CommitLostApplied), once.Operation{}, pay, "absent done"},
		{"somebody else's", lostToARival, once.Operation{}, pay, "done done"},
		{"store down when run again", downAgain, once.Operation{}, pay, " "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := seen(t, tt.store(), once.Config{}, tt.op, tt.h).last(t)
			if got := e.From + " " + e.To; got != tt.want {
				t.Errorf("%s: %q, want %q", e.Outcome, got, tt.want)
			}
		})
	}
}

// downAgain fails the first commit, and is not reached when the handler is to run again.
func downAgain() store.Store[tx] {
	s := memstore.New()
	begun := 0
	return &spy{
		Store: s,
		begin: func(ctx context.Context, ask store.BeginOptions) (store.Transaction[tx], store.Record, error) {
			if begun++; begun > 1 {
				return nil, store.Record{}, &store.Error{Kind: store.KindUnavailable, Err: errors.New("down")}
			}
			return s.Begin(ctx, ask)
		},
		commit: func(ctx context.Context, txn store.Transaction[tx], _ store.Change) error {
			return errors.Join(&store.Error{Kind: store.KindRetry, Err: errors.New("conflict")}, txn.Rollback(ctx))
		},
	}
}

func TestObserverSeesNoStateOfAJoin(t *testing.T) {
	s, r := memstore.New(), new(recorder)
	_, err := once.Join(t.Context(), once.New(s, once.Config{Observer: r}), s.BeginTx(), once.Operation{Scope: "s", Key: "k"}, charge("k"))
	must(t, err)
	if e := r.last(t); e.From != "absent" || e.To != "" {
		t.Errorf("%q to %q, but the caller has not committed", e.From, e.To)
	}
}

func TestObserversAllGetEachEvent(t *testing.T) {
	var a, b recorder
	e := once.New(memstore.New(), once.Config{Observer: once.Observers(&a, &b)})
	_, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "k"}, charge("k"))
	must(t, err)
	first, second := words(a.take()), words(b.take())
	if want := []string{"claimed", "finished executed, applied"}; !slices.Equal(first, want) || !slices.Equal(second, want) {
		t.Errorf("%q and %q, want %q twice", first, second, want)
	}
}

func ExampleObservers() {
	var finished bytes.Buffer
	engine := once.New(memstore.New(), once.Config{Observer: once.Observers(
		once.Log(slog.New(slog.DiscardHandler)),
		printer{&finished},
	)})
	_, _ = once.Do(context.Background(), engine, once.Operation{Scope: "acme refunds", Key: "k1"}, refund)
	fmt.Print(finished.String())
	// Output:
	// refunding
	// executed: absent -> done
}

type printer struct{ w *bytes.Buffer }

func (p printer) Observe(_ context.Context, e once.Event) {
	if e.Type == once.EventFinished {
		fmt.Fprintf(p.w, "%s: %s -> %s\n", e.Outcome, e.From, e.To)
	}
}

// spans is a Tracer that keeps what it sees.
type spans struct {
	recorder

	trace    string
	contexts []string // "span" of the contexts of events
}

type spanKey struct{}

func (s *spans) TraceStart(ctx context.Context, e once.Event) (context.Context, string) {
	s.Observe(ctx, e)
	return context.WithValue(ctx, spanKey{}, "span of "+e.Name), s.trace
}

func (s *spans) Observe(ctx context.Context, e once.Event) {
	span, _ := ctx.Value(spanKey{}).(string)
	s.contexts = append(s.contexts, span)
	s.recorder.Observe(ctx, e)
}

// A tracer's context is that of the handler and of all events of the call, and a replay knows the
// trace of the call that has executed it.
func TestTracerContextReachesHandlerAndEvents(t *testing.T) {
	const caller, own = "00-00000000000000000000000000000001-0000000000000001-01", "00-00000000000000000000000000000002-0000000000000002-01"
	for _, tt := range []struct{ given, kept string }{{"", caller}, {own, own}} {
		s := &spans{trace: tt.given}
		e := once.New(memstore.New(), once.Config{Observer: once.Observers(new(recorder), s), Cache: 1 << 20})
		op := once.Operation{Name: "POST /refunds", Scope: "s", Key: "k", Attempt: once.Attempt{Trace: caller}}
		for i := range 4 {
			if i == 2 { // a replay of the store, and not of the cache
				must(t, e.InvalidateCache(t.Context(), op.Scope, op.Key))
			}
			_, err := once.Do(t.Context(), e, op, func(ctx context.Context, tx tx) (string, error) {
				if ctx.Value(spanKey{}) != "span of POST /refunds" {
					t.Errorf("the handler's context has the span %v", ctx.Value(spanKey{}))
				}
				return "v", tx.Put("k", "v")
			})
			must(t, err)
			events := s.take()
			first, last := events[0], events[len(events)-1]
			if first.Trace != caller || first.Name != op.Name || first.KeyHash != once.KeyHash("k") || first.Scope != "s" {
				t.Errorf("it begins with %+v", first)
			}
			if last.Type != once.EventFinished || last.Trace != tt.kept || last.Name != op.Name {
				t.Errorf("call %d ends with %+v, want trace %s", i, last, tt.kept)
			}
			if s.contexts[0] != "" || slices.ContainsFunc(s.contexts[1:], func(span string) bool { return span != "span of POST /refunds" }) {
				t.Errorf("the spans of events: %q", s.contexts)
			}
			s.contexts = nil
			op.Attempt.Trace = caller
		}
	}
}

// A trace that no header can carry is refused, and not stored.
func TestTraceIsBounded(t *testing.T) {
	e := once.New(memstore.New(), once.Config{})
	for _, trace := range []string{strings.Repeat("a", 256), "a\nb", "\xff"} {
		_, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "k", Attempt: once.Attempt{Trace: trace}}, charge("k"))
		if once.CodeOf(err) != once.CodeInvalid {
			t.Errorf("%.20q: %v", trace, err)
		}
	}
}
