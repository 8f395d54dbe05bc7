package once

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/oncelib/once/store"
)

// change is what the store is asked to commit when the operation is done.
func (c *call[TX]) change(res store.Result) store.Change {
	if c.id.IsZero() { // the store writes no record; the caller gets the result all the same
		return store.Change{Next: store.Record{Result: res}}
	}
	var own struct { // one allocation
		claim       [16]byte
		fingerprint Fingerprint
	}
	rand.Read(own.claim[:])
	change := store.Change{
		ID:     c.id,
		Next:   store.Record{State: store.Done, Fence: 1, Claim: own.claim[:], Result: res},
		Retain: c.e.kept(c.op),
	}
	if own.fingerprint = c.op.Fingerprint; !own.fingerprint.IsZero() {
		change.Next.Fingerprint = own.fingerprint[:]
	}
	return change
}

func (c *call[TX]) seal() ([]byte, error) {
	if c.e.cfg.Seal == nil || len(c.op.Request) == 0 || c.id.IsZero() {
		return nil, nil
	}
	return c.e.cfg.Seal.Seal(c.op.Request, SealLabel(c.id.Scope, c.id.Key))
}

// committed turns the answer to a commit into a verdict.
func (c *call[TX]) committed(ctx context.Context, ch store.Change, err error) verdict {
	if err == nil {
		if !c.id.IsZero() {
			c.event.From = store.Absent.String()
		}
		return verdict{rec: ch.Next}
	}
	switch store.KindOf(err) {
	case store.Taken, store.Retry:
		return verdict{err: c.fail(CodeConflict, NotApplied, err), again: true}
	case store.Lost:
		return c.settle(ctx, ch, err)
	case store.Down, store.Busy:
		return verdict{err: c.fail(CodeUnavailable, NotApplied, err)}
	case store.Aborted:
		return verdict{err: c.fail(CodeAborted, NotApplied, err)}
	case store.Misused:
		return verdict{err: c.fail(CodeMisuse, NotApplied, err)}
	case store.Ended:
		return verdict{err: c.fail(CodeMisuse, InDoubt, err)}
	case store.Stale:
		return verdict{err: c.fail(CodeStale, NotApplied, err)}
	}
	return verdict{err: c.fail(CodeFailed, NotApplied, err)} // a deferred constraint or a write that travelled with the commit
}

// swap stores a result whose handler's writes were rolled back.
func (c *call[TX]) swap(ctx, tail context.Context, ch store.Change) verdict {
	if ch.ID.IsZero() {
		return verdict{rec: ch.Next}
	}
	rec, err := c.e.store.Swap(tail, ch)
	if err != nil && store.KindOf(err) == store.Taken && rec.State != store.Absent {
		if rec.State == store.Done && c.e.cfg.Synced { // Begin will read it durably
			return verdict{err: c.fail(CodeConflict, NotApplied, err), again: true}
		}
		return c.found(rec)
	}
	v := c.committed(ctx, ch, err)
	if store.KindOf(err) == store.Lost && v.again {
		// A Swap holds no claim while it is on its way: "absent" may mean "not yet",
		// whatever another run would come to.
		v = verdict{err: c.fail(CodeUnavailable, InDoubt, err)}
	}
	return v
}

// settle finds out what became of a commit whose answer was lost: either the
// record is there, or the claim can be had again. A found record must be durable
// to count: one that only this server has seen may still vanish in a failover.
func (c *call[TX]) settle(ctx context.Context, ch store.Change, lost error) verdict {
	c.observe(ctx, EventInDoubt, lost)
	if ch.ID.IsZero() {
		return verdict{err: c.fail(CodeUnavailable, InDoubt, lost)}
	}
	tail := c.tail(ctx)
	defer tail.end()
	ctx = tail
	applied := false
	for delay := firstDelay; ; delay = min(2*delay, 200*time.Millisecond) {
		txn, rec, err := c.e.store.Begin(ctx, store.Ask{ID: ch.ID, Durable: true})
		applied = applied || err == nil && bytes.Equal(rec.Claim, ch.Next.Claim)
		switch {
		case txn != nil && applied:
			// It was applied, and the store's clock has jumped past its retention. Kept
			// anew it can be replayed, and is durable. Its writes are there.
			again := ch
			again.Writes = nil
			if err = txn.Commit(ctx, again); err == nil {
				c.observe(ctx, EventSettled, nil)
				return verdict{rec: ch.Next}
			}
		case txn != nil: // nobody holds the claim any more: that commit is over, or can no longer happen
			_ = txn.Rollback(ctx)
			if c.absent(ctx, ch) {
				if c.doubt = c.doubt || c.unclaimed; !c.doubt {
					c.observe(ctx, EventSettled, lost)
				}
				return verdict{err: c.fail(CodeUnavailable, NotApplied, lost), again: true}
			}
		case err == nil && rec.State == store.Done && applied: // perhaps done again since, after its retention
			c.observe(ctx, EventSettled, nil)
			return verdict{rec: ch.Next, superseded: !bytes.Equal(rec.Claim, ch.Next.Claim)}
		case err == nil && rec.State == store.Done: // somebody else's: ours was not applied
			c.observe(ctx, EventSettled, lost)
			return c.found(rec)
		}
		if !sleep(ctx, delay) {
			return verdict{err: c.fail(CodeUnavailable, InDoubt, errors.Join(lost, err))}
		}
	}
}

// absent looks once more, after the claim was seen to be free: the look-up of Begin
// may have a snapshot from before its claim, in which a commit that was just then
// applied is missing.
func (c *call[TX]) absent(ctx context.Context, ch store.Change) bool {
	rec, err := c.e.store.Read(ctx, ch.ID)
	return err == nil && rec.State == store.Absent && !bytes.Equal(rec.Claim, ch.Next.Claim)
}

// found turns a record that is in the way into a verdict.
func (c *call[TX]) found(rec store.Record) verdict {
	v := verdict{rec: rec}
	c.event.From = rec.State.String()
	c.doubt = c.doubt && rec.State != store.Done // whatever may yet come finds the key taken
	switch {
	case !c.op.Fingerprint.matches(rec.Fingerprint):
		v.err = c.fail(CodeMismatch, NotApplied, nil)
	case rec.State == store.Done:
		v.replayed = true
	case rec.State == store.Unknown, rec.Lapsed && rec.Calling:
		v.err = c.fail(CodeUnknown, InDoubt, nil)
	default:
		v.err = c.fail(CodeInFlight, NotApplied, nil)
	}
	return v
}
