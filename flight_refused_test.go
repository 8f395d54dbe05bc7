package once_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// exhausted is a store whose pool is: it waits for a connection as long as it may.
func exhausted(asked *atomic.Int64) *spy {
	wait := func(ctx context.Context, acquire time.Duration) error {
		asked.Add(1)
		ctx, cancel := context.WithTimeout(ctx, acquire)
		defer cancel()
		<-ctx.Done()
		return &store.Error{Kind: store.KindUnavailable, Err: ctx.Err()}
	}
	s := &spy{Store: unread{memstore.New(), wait}}
	s.begin = func(ctx context.Context, ask store.BeginOptions) (store.Transaction[tx], store.Record, error) {
		return nil, store.Record{}, wait(ctx, ask.Timeouts.Acquire)
	}
	return s
}

// unread is a store that waits for a connection to read, too.
type unread struct {
	store.Store[tx]
	wait func(context.Context, time.Duration) error
}

func (s unread) Read(ctx context.Context, _ store.ID) (store.Record, error) {
	return store.Record{}, s.wait(ctx, time.Hour)
}

// Duplicates of one process do not wait for a connection one after another.
func TestFollowersShareARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		e := once.New(exhausted(&asked), once.Config{Timeouts: store.Timeouts{Acquire: 300 * time.Millisecond}})
		began := time.Now()
		told := tally(10, func() (once.Result[string], error) {
			r, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "k"}, charge("k"))
			var own *once.Error
			if !errors.As(err, &own) || own.Effect != once.EffectNotApplied || own.After == 0 || store.KindOf(err) != store.KindUnavailable {
				t.Error(err)
			}
			return r, err
		})
		if told["unavailable"] != 10 || asked.Load() != 1 || time.Since(began) != 300*time.Millisecond {
			t.Errorf("told %v after %v, the store was asked %d times", told, time.Since(began), asked.Load())
		}
	})
}

// A refusal that may be the leader's own is no reason for its follower: the end of its
// context, or less patience.
func TestARefusalOfTheLeadersOwn(t *testing.T) {
	for name, own := range map[string]struct{ acquire, deadline time.Duration }{
		"deadline": {time.Second, 500 * time.Millisecond}, "patience": {500 * time.Millisecond, time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			var asked atomic.Int64
			e := once.New(exhausted(&asked), once.Config{Timeouts: store.Timeouts{Acquire: time.Second}})
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), own.deadline)
				defer cancel()
				op := once.Operation{Scope: "s", Key: "k", Timeouts: store.Timeouts{Acquire: own.acquire}}
				if _, err := once.Do(ctx, e, op, charge("k")); once.CodeOf(err) != once.CodeUnavailable {
					t.Errorf("%s: the leader: %v", name, err)
				}
			}()
			synctest.Wait()
			began := time.Now()
			_, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "k"}, charge("k"))
			if once.CodeOf(err) != once.CodeUnavailable || asked.Load() != 2 || time.Since(began) != 1500*time.Millisecond {
				t.Errorf("%s: the follower, after %v and %d asked: %v", name, time.Since(began), asked.Load(), err)
			}
		})
	}
}

// A follower whose context ends before anything runs is not told that something does.
func TestFollowerThatIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		e := once.New(exhausted(&asked), once.Config{})
		go func() { _, _ = once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "k"}, charge("k")) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := once.Do(ctx, e, once.Operation{Scope: "s", Key: "k"}, charge("k"))
		if once.CodeOf(err) != once.CodeUnavailable || once.EffectOf(err) != once.EffectNotApplied || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		pass(time.Minute)
	})
}

// A retry is read before it is claimed, and an Operation says how long it waits for a
// connection: both wait no longer than that together.
func TestAcquireIsPaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		e := once.New(exhausted(&asked), once.Config{Timeouts: store.Timeouts{Acquire: 400 * time.Millisecond}})
		for _, acquire := range []time.Duration{0, 50 * time.Millisecond} {
			want := max(acquire, 400*time.Millisecond)
			if acquire > 0 {
				want = acquire
			}
			op := once.Operation{Scope: "s", Key: "k", Timeouts: store.Timeouts{Acquire: acquire}, Attempt: once.Attempt{Number: 2}}
			asked.Store(0)
			began := time.Now()
			_, err := once.Do(t.Context(), e, op, charge("k"))
			if d := time.Since(began); once.CodeOf(err) != once.CodeUnavailable || asked.Load() != 2 || d < want || d > want+time.Millisecond {
				t.Errorf("Acquire %v: after %v, asked %d times: %v", want, d, asked.Load(), err)
			}
			if began = time.Now(); e.IsDone(t.Context(), op) || time.Since(began) != want {
				t.Errorf("Acquire %v: Known took %v", want, time.Since(began))
			}
		}
	})
}
