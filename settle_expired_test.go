package once_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// leapingStore loses the answer to a commit that it applies, and then its clock jumps
// past the retention.
type leapingStore struct {
	*memstore.Store
	leaps, begins, stale int
}

func (s *leapingStore) Begin(ctx context.Context, ask store.BeginOptions) (store.Transaction[*memstore.Tx], store.Record, error) {
	s.begins++
	if s.begins == s.stale {
		ask.ID.Key += " of nobody" // a look-up from before the commit
	}
	txn, rec, err := s.Store.Begin(ctx, ask)
	if txn != nil {
		txn = leapingTxn{txn, s}
	}
	return txn, rec, err
}

type leapingTxn struct {
	store.Transaction[*memstore.Tx]
	s *leapingStore
}

func (t leapingTxn) Commit(ctx context.Context, c store.Change) error {
	err := t.Transaction.Commit(ctx, c)
	if t.s.leaps == 0 {
		return err
	}
	t.s.leaps--
	t.s.Advance(2 * once.DefaultRetain)
	return errors.Join(err, &store.Error{Kind: store.KindLost, Err: errors.New("no answer")})
}

// TestSettleWhatHasExpired: a commit that was applied is not said not to be because the
// store's clock has jumped past its retention, and does not run again.
func TestSettleWhatHasExpired(t *testing.T) {
	for _, s := range []*leapingStore{
		{leaps: 1},
		{leaps: 1, stale: 2}, // the look-up of the first try to settle
		{leaps: 2},           // the commit that keeps it anew, too
	} {
		s.Store = memstore.New()
		runs := 0
		e := once.New[*memstore.Tx](s, once.Config{})
		op := once.Operation{Scope: "s", Key: "k"}
		for range 2 {
			r, err := once.Do(t.Context(), e, op, func(context.Context, *memstore.Tx) (int, error) {
				runs++
				return 7, nil
			})
			if err != nil || r.Value != 7 || runs != 1 {
				t.Errorf("%+v: %+v, %v after %d runs, want one", s, r, err, runs)
			}
		}
		rec, err := s.Read(t.Context(), store.ID{Scope: "s", Key: "k"})
		if err != nil || rec.State != store.StateDone || time.Since(rec.Since) > 0 {
			t.Errorf("it was kept anew at %v: %+v, %v", rec.Since, rec, err)
		}
		if s.leaps != 0 {
			t.Error("vacuous: no answer was lost")
		}
	}
}

// TestSettleABatchThatHasExpired: what is kept anew is the record, and not the writes.
func TestSettleABatchThatHasExpired(t *testing.T) {
	s := &leapingStore{Store: memstore.New(), leaps: 1}
	e := once.New[*memstore.Tx](s, once.Config{})
	for range 2 {
		r, err := once.DoBatch(t.Context(), e, once.Operation{Scope: "s", Key: "k"}, func(b *once.Batch) (int, error) {
			b.Exec("insert", "charge", "a second time it fails")
			return 7, nil
		})
		if err != nil || r.Value != 7 {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if s.leaps != 0 {
		t.Error("vacuous: no answer was lost")
	}
}

// overtakenStore is a leapingStore on which another caller executes the operation before
// it can be kept anew.
type overtakenStore struct {
	leapingStore
	overtake func()
}

func (s *overtakenStore) Begin(ctx context.Context, ask store.BeginOptions) (store.Transaction[*memstore.Tx], store.Record, error) {
	txn, rec, err := s.leapingStore.Begin(ctx, ask)
	if txn != nil && s.begins == 2 {
		txn = overtakenTxn{txn, s}
	}
	return txn, rec, err
}

type overtakenTxn struct {
	store.Transaction[*memstore.Tx]
	s *overtakenStore
}

func (t overtakenTxn) Commit(ctx context.Context, _ store.Change) error {
	_ = t.Rollback(ctx)
	t.s.overtake()
	return &store.Error{Kind: store.KindTaken, Err: errors.New("another caller was faster")}
}

// TestSettleWhatWasDoneAgain: a caller is told of its own commit, also if the operation has
// expired and been executed by another caller before it could be asked about. No other call
// is told of it any more, neither one that waits for that caller nor a later one.
func TestSettleWhatWasDoneAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &overtakenStore{leapingStore: leapingStore{Store: memstore.New(), leaps: 1}}
		e := once.New[*memstore.Tx](s, once.Config{Cache: 1 << 20})
		do := func(e *once.Engine[*memstore.Tx], body string) (once.Result[string], error) {
			op := once.Operation{Scope: "s", Key: "k", Wait: time.Minute, Fingerprint: once.FingerprintOf([]byte(body))}
			return once.Do(t.Context(), e, op, func(context.Context, *memstore.Tx) (string, error) { return body, nil })
		}
		var wg sync.WaitGroup
		s.overtake = func() {
			if r, err := do(once.New[*memstore.Tx](s.Store, once.Config{}), "later"); err != nil || r.Replayed {
				t.Errorf("who was faster: %+v, %v", r, err)
			}
			wg.Go(func() {
				if r, err := do(e, "later"); err != nil || !r.Replayed || r.Value != "later" {
					t.Errorf("who has waited: %+v, %v", r, err)
				}
			})
			synctest.Wait()
		}
		if r, err := do(e, "first"); err != nil || r.Replayed || r.Value != "first" {
			t.Errorf("who was applied first: %+v, %v", r, err)
		}
		wg.Wait()
		if r, err := do(e, "later"); err != nil || !r.Replayed || r.Value != "later" {
			t.Errorf("who comes later: %+v, %v", r, err)
		}
		if s.leaps != 0 || s.begins < 3 {
			t.Errorf("vacuous: %+v", s)
		}
	})
}
