package lease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// A person ends that an outcome is unknown, in each of the ways.
func TestResolve(t *testing.T) {
	for _, tt := range []struct {
		name  string
		how   lease.Resolution
		value string
		keys  int // with which the call was made
	}{
		{"it has happened", lease.Resolution{Result: []byte(`"by hand"`)}, "by hand", 1},
		{"it has failed", lease.Resolution{Failure: &once.Failure{Code: "declined"}}, "", 1},
		{"run again", lease.Resolution{RunAgain: true}, "paid", 1},
		{"run again under another key", lease.Resolution{RunAgain: true, KeyVoided: true}, "paid", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := memstore.New()
			keys := map[string]int{}
			run := func(ctx context.Context, r *lease.Run) (string, error) {
				return lease.Call(ctx, r, "charge", func(_ context.Context, key string) (string, error) {
					if keys[key]++; len(keys) == 1 && keys[key] == 1 {
						return "", errDead
					}
					return "paid", nil
				})
			}
			_, err := once.Do(t.Context(), node(s), op, run)
			wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
			must(t, lease.Resolve(t.Context(), s, id, tt.how))
			if err := lease.Resolve(t.Context(), s, id, tt.how); store.KindOf(err) != store.KindTaken {
				t.Errorf("resolved twice: %v", err)
			}
			r, err := once.Do(t.Context(), node(s), op, run)
			if f := (*once.Failure)(nil); tt.how.Failure != nil && (!errors.As(err, &f) || f.Code != "declined") || tt.how.Failure == nil && err != nil {
				t.Error(err)
			}
			if r.Value != tt.value || len(keys) != tt.keys {
				t.Errorf("%q with %d keys, want %q with %d", r.Value, len(keys), tt.value, tt.keys)
			}
		})
	}
}

// What is not unknown is not resolved, and a resolution that says nothing or too much changes nothing.
func TestResolveRefuses(t *testing.T) {
	s := memstore.New()
	for name, how := range map[string]lease.Resolution{"absent": {RunAgain: true}} {
		if err := lease.Resolve(t.Context(), s, id, how); store.KindOf(err) != store.KindTaken {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := once.Do(t.Context(), node(s), op, func(ctx context.Context, r *lease.Run) (string, error) {
		return lease.Call(ctx, r, "charge", func(context.Context, string) (string, error) { return "", errDead })
	})
	wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
	for name, how := range map[string]lease.Resolution{
		"nothing": {}, "two": {RunAgain: true, Failure: &once.Failure{}}, "no JSON": {Result: []byte("x")}, "voided": {KeyVoided: true, Failure: &once.Failure{}},
	} {
		if err := lease.Resolve(t.Context(), s, id, how); store.KindOf(err) != store.KindMisused {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.Advance(1000 * time.Hour) // it never expires
	wantState(t, s, store.StateUnknown)
}

// What a person has decided is kept as long as the result would have been: a mail that is kept for ever is not sent again.
func TestResolutionIsKept(t *testing.T) {
	const short, long = 100 * time.Hour, 100000 * time.Hour
	for _, tt := range []struct {
		name       string
		of, decide time.Duration // retention of the operation, and what the person says
		eager      bool
		after      time.Duration
		kept       bool
	}{
		{"default", 0, 0, false, short, false},
		{"as the operation", 2 * short, 0, false, short, true},
		{"no longer than the operation", 2 * short, 0, true, 3 * short, false},
		{"for ever, as the operation", once.KeepForever, 0, true, long, true},
		{"for ever, as decided", 0, once.KeepForever, false, long, true},
		{"as decided", once.KeepForever, short / 2, false, short, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, op := memstore.New(), op
			op.Retain = tt.of
			e := once.New(lease.New(s, lease.Config{Eager: tt.eager}), once.Config{Observer: once.Discard})
			_, err := once.Do(t.Context(), e, op, fails())
			wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
			if err := lease.Resolve(t.Context(), s, id, lease.Resolution{Result: []byte(`"sent"`), Retain: -1}); store.KindOf(err) != store.KindMisused {
				t.Errorf("a negative Retain: %v", err)
			}
			must(t, lease.Resolve(t.Context(), s, id, lease.Resolution{Result: []byte(`"sent"`), Retain: tt.decide}))
			s.Advance(tt.after)
			want := map[bool]store.State{true: store.StateDone, false: store.StateAbsent}[tt.kept]
			wantState(t, s, want)
		})
	}
}

// What an engine without leases has left unknown has no retention: what a person decides about it is kept for ever.
func TestResolutionWithoutRetention(t *testing.T) {
	s := memstore.New()
	_, err := s.Swap(t.Context(), store.Change{ID: id, Next: store.Record{State: store.StateUnknown, Fence: 1}})
	must(t, err)
	must(t, lease.Resolve(t.Context(), s, id, lease.Resolution{Result: []byte(`"paid"`)}))
	s.Advance(100000 * time.Hour)
	wantState(t, s, store.StateDone)
}
