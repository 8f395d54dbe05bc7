package once_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// TestRetainOutlivesSettling: a record that expired before its lost commit was settled
// would be taken for one that never was, and executed again.
func TestRetainOutlivesSettling(t *testing.T) {
	for _, cfg := range []once.Config{{Retain: 59 * time.Second}, {Retain: time.Hour, Settle: 20 * time.Minute}, {Retain: -1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v was accepted", cfg)
				}
			}()
			once.New(memstore.New(), cfg)
		}()
	}
	e := once.New(memstore.New(), once.Config{})
	_, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "k", Retain: time.Second},
		func(context.Context, *memstore.Tx) (int, error) { return 1, nil })
	if once.CodeOf(err) != once.CodeInvalid {
		t.Error(err)
	}
}

// TestForeverReachesTheStore: a store is told that there is no end, whichever part of the API has said so, and not of one
// that is far away.
func TestForeverReachesTheStore(t *testing.T) {
	for _, c := range []struct {
		engine, op, want time.Duration
	}{
		{0, once.Forever, store.Forever}, {once.Forever, 0, store.Forever}, {once.Forever, time.Hour, time.Hour}, {0, 0, once.DefaultRetain},
	} {
		for _, fail := range []error{nil, &once.Failure{Code: "x"}} { // by Commit, by Swap
			var told []time.Duration
			s := &spy{Store: &swaps{memstore.New(), &told}, commit: func(ctx context.Context, txn store.Transaction[tx], ch store.Change) error {
				told = append(told, ch.Retain)
				return txn.Commit(ctx, ch)
			}}
			e := once.New[tx](s, once.Config{Retain: c.engine})
			op := once.Operation{Scope: "s", Key: "k", Retain: c.op}
			_, err := once.Do(t.Context(), e, op, func(ctx context.Context, t tx) (string, error) {
				v, err := charge("k")(ctx, t)
				return v, errors.Join(err, fail)
			})
			if len(told) != 1 || told[0] != c.want {
				t.Errorf("%v, %v: the store is told %v, want %v; %v", c.engine, c.op, told, c.want, err)
			}
		}
	}
}

// swaps notes what a store is told by Swap.
type swaps struct {
	store.Store[tx]
	told *[]time.Duration
}

func (s *swaps) Swap(ctx context.Context, c store.Change) (store.Record, error) {
	*s.told = append(*s.told, c.Retain)
	return s.Store.Swap(ctx, c)
}
