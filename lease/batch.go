package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/engine/declared"
	"github.com/oncelib/once/internal/held"
	"github.com/oncelib/once/store"
)

// InBatch is [InTx] for a phase whose writes and value are known before the phase runs. The function fn only
// declares the writes, in the SQL dialect of the store that keeps the leases. The writes, the value and the
// note that the phase is done are committed together, in one round trip if the store can do so.
//
// If a write fails, InBatch returns the error of the write. After an error of InBatch, no write of the phase was
// applied, and the earlier phases stay committed. The isolation level of the transaction is
// [store.ReadCommitted]. Of the operation's Timeouts, InBatch uses only the field Acquire.
func InBatch[T any](ctx context.Context, r *Run, phase string, fn func(b *once.Batch) (T, error)) (value T, err error) {
	leave, err := r.enter(phase)
	if err != nil {
		return value, err
	}
	defer leave()
	if p, ok := r.saved.find(phase); ok {
		return earlier[T](r, p)
	}
	if err := r.mayWrite(phase); err != nil {
		return value, err
	}
	err = r.trace(ctx, Phase{Name: phase}, func(ctx context.Context) error {
		var b once.Batch
		if value, err = fn(&b); err != nil {
			return err
		}
		next, err := r.done(phase, value)
		if err != nil {
			return err
		}
		return r.write(ctx, phase, next, declared.Writes(&b))
	})
	return value, err
}

// mayWrite returns an error if the phase has the name of a call that was begun. enter has refused every other phase in
// that case.
func (r *Run) mayWrite(phase string) error {
	if c := r.saved.Call; c != nil && (!c.Tx || !c.repeats(time.Now())) {
		return fmt.Errorf("phase %q cannot begin: an earlier run has begun a call with this name, or the function of the phase has ended its transaction itself: %w. Try: different names for calls and for other phases", phase, ErrUnknown)
	}
	return nil
}

// write saves next together with writes. If the answer is lost, it finds out the outcome. If necessary it sends everything again
// under the same fence, so that at most one of the writes is applied.
func (r *Run) write(ctx context.Context, phase string, next saved, writes []store.Statement) error {
	c := r.running(next)
	c.Writes = writes
	// The caller must not be able to cancel a write that the store may already have received.
	switch err := r.swap(context.WithoutCancel(ctx), c); {
	case err == nil:
		r.saved = next
		return nil
	case store.KindOf(err) == store.KindTaken:
		if errors.Is(err, held.ErrMayApply) {
			// A COMMIT of this phase may still arrive, so the run must write nothing more.
			r.lost = err
		}
		r.own.Lose(true)
		return fmt.Errorf("phase %q is not committed: %w: %w", phase, ErrLost, err)
	default:
		return fmt.Errorf("phase %q is not committed: %w", phase, err)
	}
}
