package lease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store/memstore"
)

// A caller that says by mistake that its attempt is the first one has its phase fail on what an earlier run has written. It goes on
// behind the phase all the same, and so does a Completer with the captured request of a first attempt.
func TestFirstAttemptThatIsNone(t *testing.T) {
	s := memstore.New()
	fails, runs := true, 0
	run := func(ctx context.Context, r *lease.Run) (string, error) {
		runs++
		_, err := lease.InTx(ctx, r, s, "insert", func(_ context.Context, tx *memstore.Tx) (int, error) {
			if _, there, err := tx.Get("row"); there || err != nil {
				return 0, errors.Join(err, errors.New("the row is there"))
			}
			return 1, tx.Put("row", "1")
		})
		if err == nil && fails {
			err = errDead
		}
		return "done", err
	}
	first := op
	first.Attempt.Number = 1
	_, err := once.Do(t.Context(), node(s), first, run)
	wantOutcome(t, err, once.CodeFailed, once.EffectInDoubt)
	s.Advance(time.Second)
	fails = false
	if r, err := once.Do(t.Context(), node(s), first, run); err != nil || r.Value != "done" || runs != 3 {
		t.Errorf("%+v, %v after %d runs", r, err, runs)
	}
}
