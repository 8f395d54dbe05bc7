package once_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
	"github.com/oncelib/once/store/storetest"
)

var errLost = &store.Error{Kind: store.KindLost, Err: errors.New("the connection was cut")}

// The caller goes away while COMMIT is on its way. It is not taken along.
func TestCancelDoesNotEndACommit(t *testing.T) {
	for _, lost := range []bool{false, true} {
		s := memstore.New()
		ctx, cancel := context.WithCancel(t.Context())
		e := once.New(&spy{Store: s, commit: func(tail context.Context, txn store.Transaction[tx], c store.Change) error {
			cancel()
			if tail.Err() != nil {
				t.Error("the commit was cancelled with its caller")
			}
			if _, bounded := tail.Deadline(); !bounded {
				t.Error("the commit has no bound of its own")
			}
			err := txn.Commit(tail, c)
			if lost {
				return errors.Join(err, errLost)
			}
			return err
		}}, once.Config{})
		op := once.Operation{Scope: "s", Key: "k"}
		r, err := once.Do(ctx, e, op, charge("k"))
		if err != nil || r.Replayed || !r.Since.IsZero() {
			t.Errorf("lost %t: %+v, %v", lost, r, err)
		}
		again, err := once.Do(t.Context(), e, op, charge("k"))
		if err != nil || !again.Replayed || again.Value != r.Value {
			t.Errorf("lost %t: then %+v, %v", lost, again, err)
		}
		wantEffects(t, s, "k", 1)
	}
}

func TestCancelRollsBackALivingTransaction(t *testing.T) {
	s := memstore.New()
	undone := false
	e := once.New(&spy{Store: s, undo: func(tail context.Context, txn store.Transaction[tx]) error {
		undone = tail.Err() == nil
		return txn.Rollback(tail)
	}}, once.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	op := once.Operation{Scope: "s", Key: "k"}
	_, err := once.Do(ctx, e, op, func(ctx context.Context, tx tx) (string, error) {
		_, err := charge("k")(ctx, tx)
		cancel()
		return "", errors.Join(err, ctx.Err())
	})
	if once.CodeOf(err) != once.CodeUnavailable || once.EffectOf(err) != once.EffectNotApplied || !errors.Is(err, context.Canceled) || !undone {
		t.Errorf("%v, rolled back under a living context: %t", err, undone)
	}
	wantEffects(t, s, "k", 0)
	if r, err := once.Do(t.Context(), e, op, charge("k")); err != nil || r.Replayed {
		t.Errorf("then %+v, %v", r, err)
	}
}

func TestCancelledBeforeItBegan(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e := once.New(memstore.New(), once.Config{})
	_, err := once.Do(ctx, e, once.Operation{Scope: "s", Key: "k"}, charge("k"))
	if once.CodeOf(err) != once.CodeUnavailable || once.EffectOf(err) != once.EffectNotApplied || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// The database stays away: the answer is "in doubt", after Settle and not later.
func TestInDoubtAfterSettle(t *testing.T) {
	for _, point := range []storetest.Point{storetest.CommitLostApplied, storetest.CommitLostUndone, storetest.SwapLostApplied, storetest.SwapLostUndone} {
		synctest.Test(t, func(t *testing.T) {
			f := storetest.NewFaults(memstore.New())
			f.Arm(storetest.Plan{At: []storetest.Point{point}, Outage: true})
			e := once.New(f, once.Config{Settle: 7 * time.Second})
			op := once.Operation{Scope: "s", Key: "k"}
			handler := func(context.Context, tx) (int, error) { return 1, nil }
			if slices.Contains([]storetest.Point{storetest.SwapLostApplied, storetest.SwapLostUndone}, point) {
				handler = func(context.Context, tx) (int, error) { return 0, &once.Failure{Code: "declined"} }
			}
			began := time.Now()
			_, err := once.Do(t.Context(), e, op, handler)
			if once.CodeOf(err) != once.CodeUnavailable || once.EffectOf(err) != once.EffectInDoubt || time.Since(began) != 7*time.Second {
				t.Errorf("%s: after %v: %v", point, time.Since(began), err)
			}
			if len(f.Heal()) != 1 {
				t.Fatalf("%s: not reached", point)
			}
			r, err := once.Do(t.Context(), e, op, handler)
			applied := point == storetest.CommitLostApplied || point == storetest.SwapLostApplied
			if fail := (*once.Failure)(nil); err != nil && !errors.As(err, &fail) || r.Replayed != applied {
				t.Errorf("%s: asked again: %+v, %v", point, r, err)
			}
		})
	}
}

// A Swap that is in flight holds no claim. So an absent record proves nothing: the Swap may still be applied.
func TestLostSwapIsInDoubt(t *testing.T) {
	f := storetest.NewFaults(memstore.New())
	f.Arm(storetest.Plan{At: []storetest.Point{storetest.SwapLostUndone}})
	handler := func(context.Context, tx) (int, error) { return 0, &once.Failure{Code: "declined"} }
	_, err := once.Do(t.Context(), once.New(f, once.Config{Runs: 1}), once.Operation{Scope: "s", Key: "k"}, handler)
	if once.CodeOf(err) != once.CodeUnavailable || once.EffectOf(err) != once.EffectInDoubt {
		t.Error(err)
	}
}

// A commit without an operation leaves nothing to look up.
func TestInDoubtWithoutOperation(t *testing.T) {
	f := storetest.NewFaults(memstore.New())
	f.Arm(storetest.Plan{At: []storetest.Point{storetest.CommitLostApplied}})
	r := new(recorder)
	_, err := plainly(t, once.New(f, once.Config{Observer: r}), nil)
	if once.CodeOf(err) != once.CodeUnavailable || once.EffectOf(err) != once.EffectInDoubt {
		t.Error(err)
	}
	wantEvents(t, r, "claimed", "in_doubt", "finished unavailable, in doubt")
}
