package lease_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store/memstore"
	"github.com/oncelib/once/store/storetest"
)

// Work is not taken over while its owner holds it.
func TestNotTakenOverWhileHeld(t *testing.T) {
	s := memstore.New()
	_, err := once.Do(t.Context(), node(s), op, func(ctx context.Context, r *lease.Run) (string, error) {
		v, err := lease.InTx(ctx, r, s, "a", put("a", "1"))
		_, other := once.Do(t.Context(), node(s), op, func(context.Context, *lease.Run) (string, error) {
			t.Error("it runs twice")
			return "", nil
		})
		wantOutcome(t, other, once.CodeInFlight, once.EffectNotApplied)
		return v, err
	})
	must(t, err)
}

// Two owners begin at the same time, and have the same fence. The one that is late does not take the other's phase for its own.
func TestPhaseOfAnotherOwner(t *testing.T) {
	s := memstore.New()
	faults := storetest.NewFaults[*memstore.Tx](s)
	other := &mortal{Store: s}
	faults.Arm(storetest.Plan{At: []storetest.Point{storetest.CommitTaken}, Rival: func(context.Context) {
		defer func() { _ = recover() }()
		_, err := once.Do(t.Context(), node(other), op, func(ctx context.Context, r *lease.Run) (string, error) {
			if _, err := lease.InTx(ctx, r, other, "a", put("a", "2")); err != nil {
				return "", err
			}
			other.dead = true
			panic(errDead)
		})
		t.Errorf("the other one is told %v", err)
	}})
	_, err := once.Do(t.Context(), node(faults), op, func(ctx context.Context, r *lease.Run) (string, error) {
		return lease.InTx(ctx, r, faults, "a", put("a", "1"))
	})
	wantOutcome(t, err, once.CodeInFlight, once.EffectNotApplied)
	if a, _ := s.Get("a"); a != "2" || len(faults.Heal()) != 1 {
		t.Errorf("%q is written", a)
	}
}

// Two engines of a process share its heartbeats. That one of them has taken an operation over ends the handler of the other.
func TestTakenOverInTheSameProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		leases := lease.New(s, lease.Config{TTL: time.Minute})
		lost, end := make(chan error, 1), make(chan struct{})
		do := func(then func(ctx context.Context)) {
			_, _ = once.Do(t.Context(), once.New(leases, once.Config{Observer: once.Discard}), op, func(ctx context.Context, r *lease.Run) (string, error) {
				if _, err := lease.InTx(ctx, r, s, "a", put("a", "1")); err != nil {
					return "", err
				}
				then(ctx)
				return "", nil
			})
		}
		go do(func(ctx context.Context) {
			<-ctx.Done()
			lost <- context.Cause(ctx)
		})
		synctest.Wait()
		s.Advance(2 * time.Minute)
		var kept error
		go do(func(ctx context.Context) {
			<-end
			kept = ctx.Err()
		})
		select {
		case err := <-lost:
			if !errors.Is(err, once.ErrClaimLost) {
				t.Error(err)
			}
		case <-time.After(30 * time.Minute):
			t.Error("the first one is not told")
		}
		close(end)
		synctest.Wait()
		if kept != nil {
			t.Errorf("the second one is told %v", kept)
		}
		<-time.After(2 * time.Hour) // heartbeats end
	})
}
