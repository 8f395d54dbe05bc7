package once_test

import (
	"context"
	"errors"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

func TestIsDoneOnlyAfterExecution(t *testing.T) {
	e := once.New(memstore.New(), once.Config{HashKeys: true})
	op := once.Operation{Scope: "s", Key: "k"}
	run := func(fail error) {
		_, err := once.Do(t.Context(), e, op, func(context.Context, *memstore.Tx) (int, error) { return 1, fail })
		if !errors.Is(err, fail) {
			t.Fatal(err)
		}
	}
	if run(errors.New("later")); e.IsDone(t.Context(), op) {
		t.Error("what has failed is known")
	}
	if run(nil); !e.IsDone(t.Context(), op) {
		t.Error("what was executed is not known")
	}
	other := op
	if other.Scope = "t"; e.IsDone(t.Context(), other) || e.IsDone(t.Context(), once.Operation{}) {
		t.Error("what was never asked for is known")
	}
}

// What is in the cache is known without the store.
func TestKnownFromTheCache(t *testing.T) {
	s := &deaf{Store: memstore.New()}
	e := once.New[*memstore.Tx](s, once.Config{Cache: 1 << 20, HashKeys: true})
	op := once.Operation{Scope: "s", Key: "k"}
	if _, err := once.Do(t.Context(), e, op, func(context.Context, *memstore.Tx) (int, error) { return 1, nil }); err != nil {
		t.Fatal(err)
	}
	if !e.IsDone(t.Context(), op) || s.reads != 0 {
		t.Errorf("%d look-ups for what is in the cache", s.reads)
	}
	if must(t, e.InvalidateCache(t.Context(), op.Scope, op.Key)); e.IsDone(t.Context(), op) || s.reads != 1 {
		t.Errorf("dropped from the cache, and known after %d look-ups of a store that is down", s.reads)
	}
}

// deaf is a store that cannot be read.
type deaf struct {
	*memstore.Store
	reads int
}

func (d *deaf) Read(context.Context, store.ID) (store.Record, error) {
	d.reads++
	return store.Record{}, &store.Error{Kind: store.KindUnavailable, Err: errors.New("down")}
}

// TestCachedAsksNoStore: what the cache has is told without the store, and nothing else is.
func TestCachedAsksNoStore(t *testing.T) {
	s := &deaf{Store: memstore.New()}
	e := once.New[*memstore.Tx](s, once.Config{Cache: 1 << 20, HashKeys: true})
	op := once.Operation{Scope: "s", Key: "k"}
	if e.Cached(op) || e.Cached(once.Operation{}) {
		t.Error("what was never executed is in the cache")
	}
	if _, err := once.Do(t.Context(), e, op, func(context.Context, *memstore.Tx) (int, error) { return 1, nil }); err != nil {
		t.Fatal(err)
	}
	if !e.Cached(op) {
		t.Error("what was executed is not in the cache")
	}
	if must(t, e.InvalidateCache(t.Context(), op.Scope, op.Key)); e.Cached(op) || s.reads != 0 {
		t.Errorf("dropped, and still in the cache; %d look-ups", s.reads)
	}
}
