package once

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/oncelib/once/internal/base/sleep"
	"github.com/oncelib/once/store"
)

// settle finds out what became of a commit whose answer was lost: either the
// record is there, or the claim can be had again. A found record must be durable
// to count: one that only this server has seen may still vanish in a failover.
func (c *call[TX]) settle(ctx context.Context, txn transaction[TX], ch store.Change, lost error) verdict {
	c.observe(ctx, EventInDoubt, lost)
	if ch.ID.IsZero() {
		return verdict{err: c.fail(CodeUnavailable, EffectInDoubt, lost)}
	}
	uncancelled := c.uncancelled(ctx)
	defer uncancelled.end()
	ctx = uncancelled
	applied := false
	for delay := firstDelay; ; delay = min(2*delay, 200*time.Millisecond) {
		again, rec, err := c.e.store.Begin(ctx, store.BeginOptions{ID: ch.ID, Durable: true})
		applied = applied || err == nil && bytes.Equal(rec.Nonce, ch.Next.Nonce)
		switch {
		case again != nil && applied:
			// It was applied, and the store's clock has jumped past its retention. Kept
			// anew it can be replayed, and is durable. Its writes are there.
			kept := ch
			kept.Writes = nil
			if err = again.Commit(ctx, kept); err == nil {
				c.observe(ctx, EventSettled, nil)
				return verdict{rec: ch.Next}
			}
		case again != nil: // the claim is free: that commit is over, or can no longer happen
			_ = again.Rollback(ctx)
			if c.isAbsent(ctx, ch) {
				switch {
				case c.lostBatch != batchNotLost:
				case txn.deferred:
					c.lostBatch = batchMayArrive
				default:
					c.observe(ctx, EventSettled, lost)
				}
				return verdict{err: c.fail(CodeUnavailable, EffectNotApplied, lost), again: true}
			}
		case err == nil && rec.State == store.StateDone && applied: // perhaps done again since, after its retention
			c.observe(ctx, EventSettled, nil)
			return verdict{rec: ch.Next, superseded: !bytes.Equal(rec.Nonce, ch.Next.Nonce)}
		case err == nil && rec.State == store.StateDone: // of another call: ours was not applied
			c.observe(ctx, EventSettled, lost)
			return c.found(rec)
		}
		if !sleep.For(ctx, delay) {
			return verdict{err: c.fail(CodeUnavailable, EffectInDoubt, errors.Join(lost, err))}
		}
	}
}

// isAbsent looks once more, after the claim was seen to be free: the look-up of Begin
// may have a snapshot from before its claim, in which a commit that was just then
// applied is missing.
func (c *call[TX]) isAbsent(ctx context.Context, ch store.Change) bool {
	rec, err := c.e.store.Read(ctx, ch.ID)
	return err == nil && rec.State == store.StateAbsent && !bytes.Equal(rec.Nonce, ch.Next.Nonce)
}
