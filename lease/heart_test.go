package lease_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// pass lets virtual time pass.
func pass(d time.Duration) { <-time.After(d) }

// A lease is renewed for as long as the handler runs, and not longer than MaxDuration: then the handler's context ends.
func TestHeartbeatsUntilMaxDuration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		e := once.New(lease.New(s, lease.Config{TTL: time.Second, MaxDuration: time.Minute, Eager: true}), once.Config{Observer: once.Discard})
		began := time.Now()
		_, err := once.Do(t.Context(), e, op, func(ctx context.Context, _ *lease.Run) (string, error) {
			for ctx.Err() == nil {
				if rec, err := s.Read(t.Context(), id); err != nil || rec.LeaseExpired {
					t.Errorf("after %v: %+v, %v", time.Since(began), rec, err)
				}
				pass(100 * time.Millisecond)
			}
			return "", context.Cause(ctx)
		})
		if !errors.Is(err, once.ErrClaimLost) || time.Since(began) < time.Minute || time.Since(began) > 62*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		wantState(t, s, store.StateAbsent)
		pass(time.Minute) // nothing is left
	})
}

// silent is a store that answers no renewal.
type silent struct{ *memstore.Store }

func (silent) Renew(ctx context.Context, _ []store.Hold, _ time.Duration) ([]store.Hold, error) {
	<-ctx.Done()
	return nil, &store.Error{Kind: store.KindUnavailable, Err: ctx.Err()}
}

// An owner that cannot renew its lease stops when another one may have taken it over, and can then commit nothing.
func TestLostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		e := once.New(lease.New(silent{s}, lease.Config{TTL: time.Second}), once.Config{Observer: once.Discard})
		var wg sync.WaitGroup
		held := make(chan struct{})
		wg.Go(func() {
			_, err := once.Do(t.Context(), e, op, func(ctx context.Context, r *lease.Run) (string, error) {
				if _, err := lease.InTx(ctx, r, store.Store[*memstore.Tx](silent{s}), "a", put("a", "1")); err != nil {
					return "", err
				}
				close(held)
				<-ctx.Done()
				if !errors.Is(context.Cause(ctx), once.ErrClaimLost) {
					t.Error(context.Cause(ctx))
				}
				pass(time.Minute) // stopped, and another one is there
				if _, err := lease.InTx(ctx, r, store.Store[*memstore.Tx](silent{s}), "b", put("b", "old")); !errors.Is(err, lease.ErrLost) {
					t.Error(err)
				}
				return "old", nil
			})
			wantOutcome(t, err, once.CodeFailed, once.EffectInDoubt)
		})
		<-held
		pass(5 * time.Second)
		r, err := once.Do(t.Context(), node(s), op, func(ctx context.Context, r *lease.Run) (string, error) {
			if _, err := lease.InTx(ctx, r, s, "a", put("a", "1")); err != nil {
				return "", err
			}
			return lease.InTx(ctx, r, s, "b", put("b", "new"))
		})
		must(t, err)
		wg.Wait()
		a, _ := s.Get("a")
		if b, _ := s.Get("b"); a != "1" || b != "new" || r.Value != "new" {
			t.Errorf("%q %q %q", a, b, r.Value)
		}
		pass(time.Minute)
	})
}

// A caller that leaves does not end the work, nor what the next one gets.
func TestCallerLeaves(t *testing.T) {
	s := memstore.New()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := once.Do(ctx, node(s), op, func(ctx context.Context, r *lease.Run) (string, error) {
		return lease.Call(ctx, r, "charge", func(ctx context.Context, _ string) (string, error) {
			cancel()
			return "paid", ctx.Err()
		}, lease.CallPolicy{})
	})
	must(t, err)
	if r.Value != "paid" {
		t.Errorf("%+v", r)
	}
	wantState(t, s, store.StateDone)
}

// mute is a store that does not answer, as one whose pool is exhausted or whose server has fallen silent.
type mute struct {
	*memstore.Store

	reads, swaps bool
}

func (m mute) Read(ctx context.Context, id store.ID) (store.Record, error) {
	if m.reads {
		<-ctx.Done()
		return store.Record{}, &store.Error{Kind: store.KindUnavailable, Err: ctx.Err()}
	}
	return m.Store.Read(ctx, id)
}

func (m mute) Swap(ctx context.Context, c store.Change) (store.Record, error) {
	if m.swaps {
		<-ctx.Done()
		return store.Record{}, &store.Error{Kind: store.KindUnavailable, Err: ctx.Err()}
	}
	return m.Store.Swap(ctx, c)
}

// A store that does not answer is an error, and not a hang, also before there is a lease that could be lost.
func TestStoreThatDoesNotAnswer(t *testing.T) {
	for _, m := range []mute{{reads: true}, {swaps: true}} {
		synctest.Test(t, func(t *testing.T) {
			m.Store = memstore.New()
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // a handler does not end with it
			defer cancel()
			_, err := once.Do(ctx, node(m), op, func(ctx context.Context, r *lease.Run) (string, error) {
				return lease.Call(ctx, r, "charge", func(context.Context, string) (string, error) {
					t.Error("it is called")
					return "", nil
				}, lease.CallPolicy{})
			})
			if err == nil || once.EffectOf(err) != once.EffectNotApplied || time.Since(began) > time.Minute {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
		})
	}
}
