package once_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// TestOptimisticOnlyIfProbablyNew: the look-up is put off for operations that are asked for so and are probably new, and only until anything says
// otherwise.
func TestOptimisticOnlyIfProbablyNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		s := &spy{Store: memstore.New()}
		s.begin = func(ctx context.Context, ask store.BeginOptions) (store.Transaction[tx], store.Record, error) {
			if ask.Optimistic != nil {
				asked++
			}
			return s.Store.Begin(ctx, ask)
		}
		e := once.New(s, once.Config{HashKeys: true})
		for name, c := range map[string]struct {
			op   once.Operation
			want int
		}{
			"a key of any form":               {once.Operation{Key: "order-1"}, 1},
			"a key that was made just now":    {once.Operation{Key: made(time.Now())}, 1},
			"a key that was made before":      {once.Operation{Key: made(time.Now().Add(-3 * time.Second))}, 0},
			"a key of a clock that is ahead":  {once.Operation{Key: "ahead:" + made(time.Now().Add(time.Hour))}, 1},
			"said to be the first attempt":    {once.Operation{Key: "order-2", Attempt: once.Attempt{Number: 1}}, 0},
			"said to be a retry":              {once.Operation{Key: "order-3", Attempt: once.Attempt{Number: 2}}, 0},
			"said when it was sent first":     {once.Operation{Key: "order-4", Attempt: once.Attempt{FirstSent: time.Now()}}, 0},
			"at SERIALIZABLE":                 {once.Operation{Key: "order-5", Isolation: store.Serializable}, 0},
			"without an operation, not asked": {once.Operation{}, 0},
		} {
			asked, c.op.Optimistic = 0, true
			if c.op.Key != "" {
				c.op.Scope = "s"
			}
			_, err := once.Do(t.Context(), e, c.op, charge(name))
			if asked != c.want || err != nil && c.op.Key != "" {
				t.Errorf("%s: %d, want %d: %v", name, asked, c.want, err)
			}
		}
		asked = 0
		for _, op := range []once.Operation{{Scope: "s", Key: "order-1", Optimistic: true}, {Scope: "s", Key: "order-6"}} { // seen done here; not asked for
			if _, err := once.Do(t.Context(), e, op, charge("again")); err != nil {
				t.Fatal(err)
			}
		}
		if asked != 0 {
			t.Error("a replay that is foreseen, or what does not ask for it, has its look-up put off")
		}
	})
}

// optimist is a transaction that has put off its claim.
type optimist struct{ store.Transaction[tx] }

func (optimist) IsOptimistic() bool { return true }

// TestFollowersOfAnOptimist learn that the operation runs when it is claimed, and not before: it may be done.
func TestFollowersOfAnOptimist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &spy{Store: memstore.New()}
		var claimed func()
		s.begin = func(ctx context.Context, ask store.BeginOptions) (store.Transaction[tx], store.Record, error) {
			txn, rec, err := s.Store.Begin(ctx, ask)
			if ask.Optimistic != nil && txn != nil {
				claimed, txn = ask.Optimistic, optimist{txn}
			}
			return txn, rec, err
		}
		e := once.New(s, once.Config{})
		op := once.Operation{Scope: "s", Key: "k", Optimistic: true}
		statement, end := make(chan struct{}), make(chan struct{})
		led, followed := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := once.Do(t.Context(), e, op, func(ctx context.Context, t tx) (string, error) {
				<-statement
				claimed()
				<-end
				return charge("k")(ctx, t)
			})
			led <- err
		}()
		synctest.Wait()
		go func() {
			_, err := once.Do(t.Context(), e, op, charge("k"))
			followed <- err
		}()
		synctest.Wait()
		select {
		case err := <-followed:
			t.Errorf("a follower was told %v before the claim", err)
		default:
		}
		close(statement)
		synctest.Wait()
		select {
		case err := <-followed:
			if once.CodeOf(err) != once.CodeInFlight {
				t.Errorf("a follower was told %v", err)
			}
		default:
			t.Error("a follower waits for the end of what runs")
		}
		close(end)
		if err := <-led; err != nil {
			t.Error(err)
		}
	})
}
