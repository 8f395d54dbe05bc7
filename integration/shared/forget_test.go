package shared

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/store/pgxstore"
)

func one(context.Context, pgx.Tx) (string, error) { return once.NewKey(), nil }

// TestForgottenResultIsReplayedByNoNode: what an operator forgets on one node is replayed by none, also if it is on its way to the cache, and if a cache is not reached the operator is told.
func TestForgottenResultIsReplayedByNoNode(t *testing.T) {
	t.Parallel()
	server, client := start(t)
	w := watch(client)
	var begun, ended atomic.Int64 // results on their way to the cache
	count := func() { begun.Add(1) }
	w.onAdd.Store(&count)
	w.added = func() { ended.Add(1) }
	s := pgxstore.New(poolOf(t), pgxstore.Config{})
	node := func() *once.Engine[pgx.Tx] {
		return once.New[pgx.Tx](s, once.Config{Shared: w, Observer: once.Discard})
	}
	here, there, third := node(), node(), node()
	drop := func(key string) error {
		_, err := operate.NewKeys(s, there).Forget(t.Context(), operate.By{Who: "ada", Reason: "asked"}, operate.ForgetRequest{Scope: "s", Key: key})
		return err
	}
	forget := func(key string) { // again if a busy server has not answered in time
		t.Helper()
		until(t, func() bool {
			err := drop(key)
			if err != nil && !errors.Is(err, operate.ErrCache) {
				t.Fatal(err)
			}
			return err == nil
		})
	}
	ask := func(e *once.Engine[pgx.Tx], key string) (once.Result[string], error) {
		return once.Do(t.Context(), e, once.Operation{Scope: "s", Key: key}, one)
	}
	gone := func(what, key string) {
		t.Helper()
		for _, e := range []*once.Engine[pgx.Tx]{here, there, third} {
			if r, err := ask(e, key); once.CodeOf(err) != once.CodeNoResult {
				t.Errorf("%s: %+v, %v, want %s", what, r, err, once.CodeNoResult)
			}
		}
	}

	// cached returns the key of an operation whose result the cache has. It takes another operation if the cache has not got the result in time.
	cached := func() (key string) {
		until(t, func() bool {
			key = once.NewKey()
			_, err := ask(here, key)
			must(t, err)
			hits := w.hits.Load()
			for range 100 {
				r, err := ask(there, key)
				must(t, err)
				if r.Replayed && w.hits.Load() > hits {
					return true
				}
				<-time.After(time.Millisecond)
			}
			return false
		})
		return key
	}

	kept := cached()
	forget(kept)
	gone("forgotten", kept)

	arrives, sent := make(chan struct{}), make(chan struct{}, 1)
	hold := func() {
		count()
		select {
		case sent <- struct{}{}:
		default:
		}
		<-arrives
	}
	w.onAdd.Store(&hold)
	_, err := ask(here, "late")
	must(t, err)
	<-sent
	forget("late")
	close(arrives)
	w.onAdd.Store(&count)
	until(t, func() bool { return begun.Load() == ended.Load() })
	gone("forgotten on its way", "late")

	unreached := cached()
	must(t, server.Kill())
	if err := drop(unreached); !errors.Is(err, operate.ErrCache) {
		t.Errorf("a cache that is down: %v, want %v", err, operate.ErrCache)
	}
	gone("forgotten in the database", unreached)
	must(t, server.Restart(t.Context()))
	forget(unreached)
	gone("forgotten again", unreached)
}

// TestFallenCache: while Redis hangs, is flushed, dies and comes back, four nodes get each operation twice. Each has one effect, and all answers to it are the same.
func TestFallenCache(t *testing.T) {
	testenv.Core(t)
	t.Parallel()
	server, client := start(t)
	w := watch(client)
	pool := poolOf(t)
	_, err := pool.Exec(t.Context(), "create table effect (key text not null)")
	must(t, err)
	s := pgxstore.New(pool, pgxstore.Config{})
	var nodes []*once.Engine[pgx.Tx]
	for range 4 {
		nodes = append(nodes, once.New[pgx.Tx](s, once.Config{Shared: w, Observer: once.Discard}))
	}
	const keys = 60
	answers := make([][]string, keys)
	var mu sync.Mutex
	ask := func(n, key int) {
		name := "k" + string(rune('a'+key%26)) + string(rune('a'+key/26))
		op := once.Operation{Scope: "s", Key: name, Wait: patience, Attempt: once.Attempt{Number: n % 3}}
		r, err := once.Do(t.Context(), nodes[n%4], op, func(ctx context.Context, tx pgx.Tx) (string, error) {
			_, err := tx.Exec(ctx, insertEffect, name)
			return once.NewKey(), err
		})
		mu.Lock()
		defer mu.Unlock()
		if answers[key] = append(answers[key], r.Value); err != nil {
			t.Error(err)
		}
	}
	for key := range keys {
		var all sync.WaitGroup
		for n := range 4 {
			all.Go(func() { ask(n, key) })
		}
		all.Wait()
		switch key % 30 {
		case 5:
			must(t, server.Freeze())
		case 10:
			must(t, server.Thaw())
		case 15:
			until(t, func() bool { return client.FlushAll(t.Context()).Err() == nil })
		case 20:
			must(t, server.Kill())
		case 25:
			must(t, server.Restart(t.Context()))
		}
		for n := range 4 {
			ask(n+1, max(0, key-3))
		}
	}
	for key, got := range answers {
		for _, a := range got {
			if a != got[0] || a == "" {
				t.Errorf("key %d: the answers are %q", key, got)
				break
			}
		}
	}
	if n, distinct := count(t, pool, "select count(*) from effect"), count(t, pool, "select count(distinct key) from effect"); n != keys || distinct != keys {
		t.Errorf("%d effects of %d keys, want %d", n, distinct, keys)
	}
	if w.hits.Load() < 10 {
		t.Errorf("vacuous: %d hits", w.hits.Load())
	}
	t.Logf("%d hits, %d misses", w.hits.Load(), w.misses.Load())
}
