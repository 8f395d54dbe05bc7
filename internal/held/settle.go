package held

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/oncelib/once/store"
)

const (
	SettleTime = 5 * time.Second // limits the time to find out whether a write with a lost answer was applied
	FirstDelay = 5 * time.Millisecond
	MaxDelay   = 200 * time.Millisecond
)

// Swap makes a change in a separate transaction. If the answer is lost, Swap finds out whether the change was applied. An error
// of [store.KindLost] says that it could not find out, and that the change may still be applied.
func (o *Owner) Swap(ctx context.Context, c store.Change) error {
	c = o.Under(c)
	defer o.Writing(time.Now())()
	try := func(ctx context.Context) (again bool, err error) { // the context of the handler has no deadline
		ctx, cancel := context.WithTimeout(ctx, o.acquire+SettleTime)
		defer cancel()
		rec, err := o.ops.Swap(ctx, c)
		switch kind := store.KindOf(err); {
		case err == nil, kind == store.KindTaken && isOwn(rec, c):
			// An earlier try was applied and its answer was lost: the conflicting record is the one that this owner has written.
			o.Adopt(c.Next)
			return false, nil
		default:
			return kind != store.KindTaken, err
		}
	}
	again, err := try(ctx)
	for delay := FirstDelay; again && store.KindOf(err) == store.KindRetry && Pause(ctx, rand.N(delay)); delay *= 2 {
		again, err = try(ctx)
	}
	if !again || store.KindOf(err) != store.KindLost {
		return err
	}
	lost := err
	// The write must be settled even if the caller has ended.
	settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), SettleTime)
	defer cancel()
	for delay := FirstDelay; again && Pause(settling, rand.N(delay)); delay = min(2*delay, MaxDelay) {
		again, err = try(settling)
	}
	switch {
	case again:
		return lost
	case err != nil && c.Expect.Fence == 0: // the other owner may be gone before the first try arrives, which may then apply
		return fmt.Errorf("%w: %w", err, ErrMayApply)
	}
	return err
}

// ErrMayApply is in the chain of an error of [Owner.Swap] if the change may still be applied later, although another owner was
// seen.
var ErrMayApply = errors.New("the store has not answered an earlier attempt to write, and this write may still be applied")

// IsApplied finds out whether the write after the adopted one was applied. If it was, rec is the record of this write, in any
// state. IsApplied does not adopt it. An error says that the store has not answered in [SettleTime].
func (o *Owner) IsApplied(ctx context.Context) (rec store.Record, applied bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), SettleTime)
	defer cancel()
	for delay := FirstDelay; ; delay = min(2*delay, MaxDelay) {
		rec, err := o.ops.Read(ctx, o.ID)
		if err == nil {
			return rec, rec.Fence == o.Fence()+1 && bytes.Equal(rec.Nonce, o.Nonce), nil
		}
		if !Pause(ctx, rand.N(delay)) {
			return rec, false, err
		}
	}
}

// Pause waits for d, and returns false if ctx has ended first.
func Pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
