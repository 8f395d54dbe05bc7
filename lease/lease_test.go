package lease_test

// The tests with databases are in integration/lease: "make test-of DIR=lease" runs them after these.

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

var op = once.Operation{Scope: "acme POST /refunds", Key: "k", Fingerprint: once.FingerprintOf([]byte("a"))}

var id = store.ID{Scope: op.Scope, Key: op.Key}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// node is a process of a service: an engine of its own on a store that it shares.
func node(s store.Operations) *once.Engine[*lease.Run] {
	return once.New(lease.New(s, lease.Config{TTL: time.Minute}), once.Config{Observer: once.Discard})
}

func put(key, value string) func(context.Context, *memstore.Tx) (string, error) {
	return func(_ context.Context, tx *memstore.Tx) (string, error) {
		before, _, err := tx.Get(key)
		if err != nil {
			return "", err
		}
		return value, tx.Put(key, before+value)
	}
}

func wantOutcome(t *testing.T, err error, code once.Code, effect once.Effect) {
	t.Helper()
	if once.CodeOf(err) != code || once.EffectOf(err) != effect {
		t.Errorf("%q, %s (%v), want %q, %s", once.CodeOf(err), once.EffectOf(err), err, code, effect)
	}
}

func wantState(t *testing.T, s store.Operations, want store.State) store.Record {
	t.Helper()
	rec, err := s.Read(context.Background(), id)
	must(t, err)
	if rec.State != want {
		t.Errorf("the operation is %s, want %s", rec.State, want)
	}
	return rec
}

var errDead = errors.New("the process dies here")

// A call is two commits, and each phase of database work one more. A replay runs nothing.
func TestPhasesAndACall(t *testing.T) {
	s := memstore.New()
	var keys []string
	run := func(ctx context.Context, r *lease.Run) (string, error) {
		a, err := lease.InTx(ctx, r, s, "reserve", put("stock", "1"))
		if err != nil {
			return "", err
		}
		b, err := lease.Call(ctx, r, "charge", func(_ context.Context, key string) (string, error) {
			keys = append(keys, key)
			return "paid", nil
		}, lease.CallPolicy{})
		if err != nil {
			return "", err
		}
		c, err := lease.InTx(ctx, r, s, "book", put("book", "1"))
		return a + b + c, err
	}
	e := node(s)
	for i := range 2 {
		r, err := once.Do(t.Context(), e, op, run)
		must(t, err)
		if r.Value != "1paid1" || r.Replayed != (i == 1) {
			t.Errorf("%+v", r)
		}
	}
	if len(keys) != 1 || keys[0] != lease.Key(op.Scope, op.Key, "charge", 0) || len(keys[0]) != 36 {
		t.Errorf("keys %q", keys)
	}
	rec := wantState(t, s, store.StateDone)
	if rec.Fence != 4 || string(rec.Data) != `{"phases":[{"name":"reserve"},{"name":"charge"},{"name":"book"}]}` {
		t.Errorf("fence %d, data %q", rec.Fence, rec.Data)
	}
}

// A handler that fails after a phase parks the operation: the next caller goes on behind the phase, at once.
func TestGoesOnBehindAPhase(t *testing.T) {
	s := memstore.New()
	fails := true
	run := func(ctx context.Context, r *lease.Run) (string, error) {
		if _, err := lease.InTx(ctx, r, s, "a", put("a", "1")); err != nil {
			return "", err
		}
		if fails {
			return "", errDead
		}
		return lease.InTx(ctx, r, s, "b", put("b", "2"))
	}
	_, err := once.Do(t.Context(), node(s), op, run)
	wantOutcome(t, err, once.CodeFailed, once.EffectInDoubt)
	s.Advance(time.Second)
	fails = false
	r, err := once.Do(t.Context(), node(s), op, run)
	must(t, err)
	a, _ := s.Get("a")
	if b, _ := s.Get("b"); a != "1" || b != "2" || r.Value != "2" {
		t.Errorf("%q %q %+v", a, b, r)
	}
}

// What becomes of a call whose caller has failed in it.
func TestFailedCall(t *testing.T) {
	timeout := errors.New("timeout")
	find := func(finding lease.Finding) lease.CallCheck {
		return lease.Check(func(context.Context, string) (string, lease.Finding, error) { return "found", finding, nil })
	}
	for _, tt := range []struct {
		name   string
		policy lease.CallPolicy
		fail   error
		code   once.Code
		effect once.Effect
		state  store.State
		second once.Code // of the next caller
		calls  int
		keys   int // different ones
	}{
		{"nothing is said", lease.CallPolicy{}, timeout, once.CodeUnknown, once.EffectInDoubt, store.StateUnknown, once.CodeUnknown, 1, 1},
		{"safe to repeat", lease.CallPolicy{SafeToRepeat: true}, timeout, once.CodeFailed, once.EffectInDoubt, store.StateWaiting, "", 2, 1},
		{"deduped", lease.CallPolicy{DedupedFor: time.Hour}, timeout, once.CodeFailed, once.EffectInDoubt, store.StateWaiting, "", 2, 1},
		{"deduped, and the key is forgotten", lease.CallPolicy{DedupedFor: time.Second}, timeout, once.CodeUnknown, once.EffectInDoubt, store.StateUnknown, once.CodeUnknown, 1, 1},
		{"it happened", lease.CallPolicy{Check: find(lease.Happened)}, timeout, "", once.EffectApplied, store.StateDone, "", 1, 1},
		{"unclear", lease.CallPolicy{Check: find(lease.Unclear)}, timeout, once.CodeUnknown, once.EffectInDoubt, store.StateUnknown, once.CodeUnknown, 1, 1},
		{"voided", lease.CallPolicy{Check: find(lease.Voided)}, timeout, once.CodeFailed, once.EffectInDoubt, store.StateWaiting, "", 2, 2},
		{"not sent", lease.CallPolicy{}, lease.NotSent(timeout), once.CodeFailed, once.EffectNotApplied, store.StateAbsent, "", 2, 1},
		{"a final failure", lease.CallPolicy{}, &once.Failure{Code: "declined"}, "", once.EffectApplied, store.StateDone, "", 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // so that no key is forgotten before its call
				s := memstore.New()
				keys := map[string]bool{}
				calls := 0
				run := func(ctx context.Context, r *lease.Run) (string, error) {
					return lease.Call(ctx, r, "charge", func(ctx context.Context, key string) (string, error) {
						keys[key] = true
						if calls++; calls == 1 {
							if tt.policy.DedupedFor == time.Second {
								<-ctx.Done() // until the service may forget the key
							}
							return "", tt.fail
						}
						return "paid", nil
					}, tt.policy)
				}
				_, err := once.Do(t.Context(), node(s), op, run)
				if f := (*once.Failure)(nil); !errors.As(tt.fail, &f) && tt.code != "" {
					wantOutcome(t, err, tt.code, tt.effect)
				} else if f != nil && !errors.As(err, &f) {
					t.Error(err)
				}
				wantState(t, s, tt.state)
				_, err = once.Do(t.Context(), node(s), op, run)
				if once.CodeOf(err) != tt.second && !errors.As(err, new(*once.Failure)) {
					t.Errorf("the next caller gets %v", err)
				}
				if calls != tt.calls || len(keys) != tt.keys {
					t.Errorf("%d calls with %d keys, want %d and %d", calls, len(keys), tt.calls, tt.keys)
				}
				pass(time.Hour) // the heartbeats end
			})
		})
	}
}
