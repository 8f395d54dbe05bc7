package lease_test

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

// stalls is a store. The process that uses it stands still after each write and each renewal.
type stalls struct {
	*memstore.Store

	written, renewed func()
	silent           bool // no renewal is answered
}

func (s *stalls) Swap(ctx context.Context, c store.Change) (store.Record, error) {
	rec, err := s.Store.Swap(ctx, c)
	if then := s.written; then != nil {
		s.written = nil
		then()
	}
	return rec, err
}

func (s *stalls) Renew(ctx context.Context, holds []store.Hold, ttl time.Duration) ([]store.Hold, error) {
	if s.silent {
		return silent{s.Store}.Renew(ctx, holds, ttl)
	}
	held, err := s.Store.Renew(ctx, holds, ttl)
	if s.renewed != nil {
		s.renewed()
	}
	return held, err
}

// patient returns an engine whose leases outlast the life of a key.
func patient(s store.Operations) *once.Engine[*lease.Run] {
	return once.New(lease.New(s, lease.Config{TTL: 100 * time.Hour, MaxDuration: 1000 * time.Hour}), once.Config{Observer: once.Discard})
}

// TestNoCallAfterItsKeyMayBeForgotten: a process stands still between the intent and the call until the service may forget the key. The call is not
// made, and is known to be unmade: the next run makes the call under a new intent.
func TestNoCallAfterItsKeyMayBeForgotten(t *testing.T) {
	const life = 10 * time.Hour
	for _, checks := range []bool{false, true} {
		for _, stands := range []time.Duration{9*time.Hour - 1, 9 * time.Hour, 11 * time.Hour} {
			synctest.Test(t, func(t *testing.T) {
				s, calls := &stalls{Store: memstore.New()}, 0
				policy := lease.CallPolicy{DedupedFor: life}
				if checks {
					policy.Check = lease.Check(func(context.Context, string) (string, lease.Finding, error) {
						t.Error("the service is asked about a call that was not made")
						return "", lease.Unclear, nil
					})
				}
				run := func(ctx context.Context, r *lease.Run) (string, error) {
					return lease.Call(ctx, r, "charge", func(ctx context.Context, _ string) (string, error) {
						calls++
						if end, ok := ctx.Deadline(); !ok || time.Until(end) <= 0 || time.Until(end) > life*9/10 {
							t.Errorf("the context of the call ends in %v (%t)", time.Until(end), ok)
						}
						return "paid", nil
					}, policy)
				}
				s.written = func() { pass(stands) }
				_, err := once.Do(t.Context(), patient(s), op, run)
				if stands < life*9/10 {
					must(t, err)
				} else {
					wantOutcome(t, err, once.CodeFailed, once.EffectNotApplied)
					if !lease.IsNotSent(err) || errors.Is(err, lease.ErrUnknown) || calls != 0 {
						t.Errorf("%d calls: %v", calls, err)
					}
					wantState(t, s, store.StateAbsent)
					_, err = once.Do(t.Context(), patient(s), op, run)
					must(t, err)
				}
				if wantState(t, s, store.StateDone); calls != 1 {
					t.Errorf("%d calls", calls)
				}
				pass(1000 * time.Hour) // the heartbeats end
			})
		}
	}
}

// TestNoRepetitionAfterItsKeyMayBeForgotten: a process stands still before it makes a call again, until the service may forget the key. The call is
// not made again: the service is asked if the policy has a Check, and otherwise the outcome is unknown.
func TestNoRepetitionAfterItsKeyMayBeForgotten(t *testing.T) {
	for _, tt := range []struct {
		name   string
		check  bool
		stands time.Duration
		calls  int
	}{{"in time", false, time.Hour, 2}, {"late", false, 10 * time.Hour, 1}, {"late, with a Check", true, 10 * time.Hour, 1}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, calls := &stalls{Store: memstore.New()}, 0
				policy := lease.CallPolicy{DedupedFor: 10 * time.Hour}
				if tt.check {
					finding := lease.Unclear
					policy.Check = lease.Check(func(context.Context, string) (string, lease.Finding, error) {
						defer func() { finding = lease.Happened }()
						return "paid", finding, nil
					})
				}
				run := func(ctx context.Context, r *lease.Run) (string, error) {
					return lease.Call(ctx, r, "charge", func(context.Context, string) (string, error) {
						if calls++; calls == 1 {
							return "", errDead
						}
						return "paid", nil
					}, policy)
				}
				_, err := once.Do(t.Context(), node(s), op, run)
				wantOutcome(t, err, once.CodeFailed, once.EffectInDoubt)
				s.written = func() { pass(2 * time.Minute) } // longer than the lease lasts, so the run renews the lease
				s.renewed = func() { pass(tt.stands) }
				_, err = once.Do(t.Context(), node(s), op, run)
				if tt.calls == 2 || tt.check {
					must(t, err)
				} else {
					wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
					wantState(t, s, store.StateUnknown)
				}
				if calls != tt.calls {
					t.Errorf("%d calls, want %d", calls, tt.calls)
				}
				pass(1000 * time.Hour) // the heartbeats end
			})
		})
	}
}

// TestNoCallByAnOwnerThatStoodStill: a process stands still between the intent and the call, for longer than its lease lasts. If another owner has
// taken the operation over, or the store does not say, only the other owner makes the call. If no other owner has taken it over, the call is made.
func TestNoCallByAnOwnerThatStoodStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for i, policy := range []lease.CallPolicy{{}, {SafeToRepeat: true}, {DedupedFor: time.Hour}} {
			for _, taken := range []bool{false, true} {
				s := &stalls{Store: memstore.New()}
				var first, second int
				s.written = func() {
					pass(2 * time.Minute)
					if !taken {
						return
					}
					s.Advance(2 * time.Minute)
					_, _ = once.Do(t.Context(), node(s.Store), op, func(ctx context.Context, r *lease.Run) (string, error) {
						return lease.Call(ctx, r, "charge", func(context.Context, string) (string, error) { second++; return "second", nil }, policy)
					})
				}
				var told error
				_, err := once.Do(t.Context(), node(s), op, func(ctx context.Context, r *lease.Run) (string, error) {
					var v string
					v, told = lease.Call(ctx, r, "charge", func(context.Context, string) (string, error) { first++; return "first", nil }, policy)
					return v, told
				})
				switch {
				case !taken && (first != 1 || err != nil):
					t.Errorf("%+v, not taken over: %d calls, %v", policy, first, err)
				case taken && (first != 0 || !errors.Is(told, lease.ErrLost)):
					t.Errorf("%+v, taken over: %d calls, %v, %v", policy, first, told, err)
				case taken && i > 0 && second != 1:
					t.Errorf("%+v, taken over: the other owner makes %d calls", policy, second)
				}
				pass(2 * time.Hour) // the heartbeats end
			}
		}
		s := &stalls{Store: memstore.New(), silent: true}
		s.written = func() { pass(2 * time.Minute) }
		_, err := once.Do(t.Context(), node(s), op, func(ctx context.Context, r *lease.Run) (string, error) {
			return lease.Call(ctx, r, "charge", func(context.Context, string) (string, error) {
				t.Error("the call is made, although the lease is over")
				return "", nil
			}, lease.CallPolicy{})
		})
		wantOutcome(t, err, once.CodeFailed, once.EffectNotApplied)
		wantState(t, s, store.StateAbsent)
		pass(2 * time.Hour) // the heartbeats end
	})
}

// TestNoAnswerOfACheckAfterTheServiceForgets: a Check lasts until the service may have forgotten the call. Its context ends then, and only "it happened"
// counts afterwards.
func TestNoAnswerOfACheckAfterTheServiceForgets(t *testing.T) {
	const knows = 10 * time.Hour
	for _, tt := range []struct {
		found lease.Finding
		lasts time.Duration
		want  once.Code
		calls int
	}{
		{lease.Voided, 9*time.Hour - 1, "", 2},
		{lease.Voided, 9 * time.Hour, once.CodeUnknown, 1},
		{lease.Happened, 9 * time.Hour, "", 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, calls := memstore.New(), 0
			run := func(ctx context.Context, r *lease.Run) (string, error) {
				return lease.Call(ctx, r, "charge", func(context.Context, string) (string, error) {
					if calls++; calls == 1 {
						return "", errDead
					}
					return "paid", nil
				}, lease.CallPolicy{CheckedFor: knows, Check: lease.Check(func(ctx context.Context, _ string) (string, lease.Finding, error) {
					if end, ok := ctx.Deadline(); !ok || time.Until(end) != knows*9/10 {
						t.Errorf("the context of the Check ends in %v (%t)", time.Until(end), ok)
					}
					pass(tt.lasts)
					return "paid", tt.found, nil
				})})
			}
			_, err := once.Do(t.Context(), patient(s), op, run)
			if err != nil && tt.want == "" { // the call is made again, under a new key
				_, err = once.Do(t.Context(), patient(s), op, run)
			}
			if once.CodeOf(err) != tt.want || calls != tt.calls {
				t.Errorf("%v after %v: %d calls, %v", tt.found, tt.lasts, calls, err)
			}
			pass(1000 * time.Hour) // the heartbeats end
		})
	}
}
