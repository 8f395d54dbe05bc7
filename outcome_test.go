package once_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// kindAfterAll is a kind that a newer store may return and this version does not know.
const kindAfterAll = store.KindUncertain + 1

// failingSwap is a store whose Swap fails.
type failingSwap struct {
	*spy
	err error
}

func (s failingSwap) Unwrap() any { return s.spy }

func (s failingSwap) Swap(context.Context, store.Change) (store.Record, error) {
	return store.Record{}, s.err
}

// failingJoin is a store whose Join fails.
type failingJoin struct {
	*memstore.Store
	err error
}

func (s failingJoin) Join(context.Context, tx, store.BeginOptions) (store.Transaction[tx], store.Record, error) {
	return nil, store.Record{}, s.err
}

// placesOfKinds are the places of a call in which the store's error can come up. Each returns
// how many transactions were begun for it, and what the caller learns.
var placesOfKinds = map[string]func(ctx context.Context, k error) (int, error){
	"begin": func(ctx context.Context, k error) (int, error) {
		begins := 0
		s := &spy{Store: memstore.New(), begin: func(context.Context, store.BeginOptions) (store.Transaction[tx], store.Record, error) {
			begins++
			return nil, store.Record{}, k
		}}
		_, err := once.Do(ctx, once.New[tx](s, once.Config{Runs: 2}), once.Operation{Scope: "s", Key: "k"}, charge("n"))
		return begins, err
	},
	"join": func(ctx context.Context, k error) (int, error) {
		e := once.New[tx](failingJoin{memstore.New(), k}, once.Config{Runs: 2})
		_, err := once.Join(ctx, e, nil, once.Operation{Scope: "s", Key: "k"}, charge("n"))
		return 0, err
	},
	"commit": func(ctx context.Context, k error) (int, error) {
		begins, mem := 0, memstore.New()
		s := &spy{Store: mem}
		s.begin = func(ctx context.Context, ask store.BeginOptions) (store.Transaction[tx], store.Record, error) {
			begins++
			return mem.Begin(ctx, ask)
		}
		s.commit = func(ctx context.Context, txn store.Transaction[tx], _ store.Change) error {
			_ = txn.Rollback(ctx)
			return k
		}
		_, err := once.Do(ctx, once.New[tx](s, once.Config{Runs: 2}), once.Operation{Scope: "s", Key: "k"}, charge("n"))
		return begins, err
	},
	"swap": func(ctx context.Context, k error) (int, error) {
		begins, mem := 0, memstore.New()
		s := &spy{Store: mem}
		s.begin = func(ctx context.Context, ask store.BeginOptions) (store.Transaction[tx], store.Record, error) {
			begins++
			return mem.Begin(ctx, ask)
		}
		_, err := once.Do(ctx, once.New[tx](failingSwap{s, k}, once.Config{Runs: 2}), once.Operation{Scope: "s", Key: "k"},
			func(context.Context, tx) (int, error) { return 0, &once.Failure{Code: "declined"} })
		return begins, err
	},
	"handler": func(ctx context.Context, k error) (int, error) {
		begins, mem := 0, memstore.New()
		s := &spy{Store: mem}
		s.begin = func(ctx context.Context, ask store.BeginOptions) (store.Transaction[tx], store.Record, error) {
			begins++
			return mem.Begin(ctx, ask)
		}
		_, err := once.Do(ctx, once.New[tx](s, once.Config{Runs: 2}), once.Operation{Scope: "s", Key: "k"},
			func(context.Context, tx) (int, error) { return 0, fmt.Errorf("handler: %w", k) })
		return begins, err
	},
	"rollback": func(ctx context.Context, k error) (int, error) { // after the handler has failed
		begins, mem := 0, memstore.New()
		s := &spy{Store: mem}
		s.begin = func(ctx context.Context, ask store.BeginOptions) (store.Transaction[tx], store.Record, error) {
			begins++
			return mem.Begin(ctx, ask)
		}
		s.undo = func(ctx context.Context, txn store.Transaction[tx]) error {
			_ = txn.Rollback(ctx)
			return k
		}
		_, err := once.Do(ctx, once.New[tx](s, once.Config{Runs: 2}), once.Operation{Scope: "s", Key: "k"},
			func(context.Context, tx) (int, error) { return 0, errors.New("no") })
		return begins, err
	},
	"rollback before swap": func(ctx context.Context, k error) (int, error) {
		begins, mem := 0, memstore.New()
		s := &spy{Store: mem}
		s.begin = func(ctx context.Context, ask store.BeginOptions) (store.Transaction[tx], store.Record, error) {
			begins++
			return mem.Begin(ctx, ask)
		}
		s.undo = func(ctx context.Context, txn store.Transaction[tx]) error {
			_ = txn.Rollback(ctx)
			return k
		}
		_, err := once.Do(ctx, once.New[tx](s, once.Config{Runs: 2}), once.Operation{Scope: "s", Key: "k"},
			func(context.Context, tx) (int, error) { return 0, &once.Failure{Code: "declined"} })
		return begins, err
	},
}

// TestEveryKindHasItsOutcome pins what a caller learns from each kind of store error, in each
// place where one can come up. "x 2" says that two transactions were begun: the call has tried
// again.
func TestEveryKindHasItsOutcome(t *testing.T) {
	for place, meet := range placesOfKinds {
		t.Run(place, func(t *testing.T) {
			for k := store.KindOther; k <= kindAfterAll; k++ {
				var err error
				var begins int
				synctest.Test(t, func(t *testing.T) {
					begins, err = meet(t.Context(), &store.Error{Kind: k, Err: errors.New("cause")})
				})
				got := fmt.Sprintf("%s, %v, x %d", once.CodeOf(err), once.EffectOf(err), begins)
				if once.CodeOf(err) == "" {
					got = fmt.Sprintf("%v, x %d", err, begins)
				}
				if want := outcomesOfKinds[place][k]; got != want {
					t.Errorf("%v: %q, want %q", k, got, want)
				}
			}
		})
	}
}

var outcomesOfKinds = map[string][kindAfterAll + 1]string{
	"begin": {
		store.KindOther:       "unavailable, not applied, x 1",
		store.KindTaken:       "unavailable, not applied, x 1",
		store.KindRetry:       "conflict, not applied, x 2",
		store.KindAborted:     "aborted, not applied, x 1",
		store.KindMisused:     "misuse, not applied, x 1",
		store.KindUnavailable: "unavailable, not applied, x 1",
		store.KindLost:        "unavailable, not applied, x 1",
		store.KindEnded:       "misuse, not applied, x 1",
		store.KindBusy:        "unavailable, not applied, x 1",
		store.KindStale:       "stale, not applied, x 1",
		store.KindPartial:     "failed, in doubt, x 1",
		store.KindUncertain:   "unknown, in doubt, x 1",
		kindAfterAll:          "unavailable, not applied, x 1",
	},
	"join": {
		store.KindOther:       "unavailable, not applied, x 0",
		store.KindTaken:       "unavailable, not applied, x 0",
		store.KindRetry:       "conflict, not applied, x 0",
		store.KindAborted:     "aborted, not applied, x 0",
		store.KindMisused:     "misuse, not applied, x 0",
		store.KindUnavailable: "unavailable, not applied, x 0",
		store.KindLost:        "unavailable, not applied, x 0",
		store.KindEnded:       "misuse, not applied, x 0",
		store.KindBusy:        "unavailable, not applied, x 0",
		store.KindStale:       "stale, not applied, x 0",
		store.KindPartial:     "failed, in doubt, x 0",
		store.KindUncertain:   "unknown, in doubt, x 0",
		kindAfterAll:          "unavailable, not applied, x 0",
	},
	"handler": {
		store.KindOther:       "failed, not applied, x 1",
		store.KindTaken:       "failed, not applied, x 1",
		store.KindRetry:       "conflict, not applied, x 2",
		store.KindAborted:     "failed, not applied, x 1",
		store.KindMisused:     "failed, not applied, x 1",
		store.KindUnavailable: "failed, not applied, x 1",
		store.KindLost:        "failed, not applied, x 1",
		store.KindEnded:       "misuse, in doubt, x 1",
		store.KindBusy:        "unavailable, not applied, x 1",
		store.KindStale:       "failed, not applied, x 1",
		store.KindPartial:     "failed, not applied, x 1",
		store.KindUncertain:   "failed, not applied, x 1",
		kindAfterAll:          "failed, not applied, x 1",
	},
	"rollback": {
		store.KindOther:       "failed, not applied, x 1",
		store.KindTaken:       "conflict, not applied, x 21",
		store.KindRetry:       "conflict, not applied, x 2",
		store.KindAborted:     "failed, not applied, x 1",
		store.KindMisused:     "failed, not applied, x 1",
		store.KindUnavailable: "failed, not applied, x 1",
		store.KindLost:        "failed, not applied, x 1",
		store.KindEnded:       "misuse, in doubt, x 1",
		store.KindBusy:        "unavailable, not applied, x 1",
		store.KindStale:       "failed, not applied, x 1",
		store.KindPartial:     "failed, in doubt, x 1",
		store.KindUncertain:   "unknown, in doubt, x 1",
		kindAfterAll:          "failed, not applied, x 1",
	},
	"commit": {
		store.KindOther:       "failed, not applied, x 1",
		store.KindTaken:       "conflict, not applied, x 21",
		store.KindRetry:       "conflict, not applied, x 2",
		store.KindAborted:     "aborted, not applied, x 1",
		store.KindMisused:     "misuse, not applied, x 1",
		store.KindUnavailable: "unavailable, not applied, x 1",
		store.KindLost:        "unavailable, not applied, x 4",
		store.KindEnded:       "misuse, in doubt, x 1",
		store.KindBusy:        "unavailable, not applied, x 1",
		store.KindStale:       "stale, not applied, x 1",
		store.KindPartial:     "failed, in doubt, x 1",
		store.KindUncertain:   "unknown, in doubt, x 1",
		kindAfterAll:          "failed, not applied, x 1",
	},
	"swap": {
		store.KindOther:       "failed, not applied, x 1",
		store.KindTaken:       "conflict, not applied, x 21",
		store.KindRetry:       "conflict, not applied, x 2",
		store.KindAborted:     "aborted, not applied, x 1",
		store.KindMisused:     "misuse, not applied, x 1",
		store.KindUnavailable: "unavailable, not applied, x 1",
		store.KindLost:        "unavailable, in doubt, x 2",
		store.KindEnded:       "misuse, in doubt, x 1",
		store.KindBusy:        "unavailable, not applied, x 1",
		store.KindStale:       "stale, not applied, x 1",
		store.KindPartial:     "failed, in doubt, x 1",
		store.KindUncertain:   "unknown, in doubt, x 1",
		kindAfterAll:          "failed, not applied, x 1",
	},
	"rollback before swap": {
		store.KindOther:       "declined, x 1",
		store.KindTaken:       "conflict, not applied, x 21",
		store.KindRetry:       "conflict, not applied, x 2",
		store.KindAborted:     "declined, x 1",
		store.KindMisused:     "declined, x 1",
		store.KindUnavailable: "declined, x 1",
		store.KindLost:        "declined, x 1",
		store.KindEnded:       "misuse, in doubt, x 1",
		store.KindBusy:        "unavailable, not applied, x 1",
		store.KindStale:       "declined, x 1",
		store.KindPartial:     "declined, x 1",
		store.KindUncertain:   "declined, x 1",
		kindAfterAll:          "declined, x 1",
	},
}
