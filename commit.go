package once

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/oncelib/once/internal/base/lazy"
	"github.com/oncelib/once/internal/base/seal"
	"github.com/oncelib/once/internal/base/sleep"
	"github.com/oncelib/once/internal/base/toolarge"
	"github.com/oncelib/once/store"
)

// commit commits the answer of a run. If the handler's writes must be rolled back, it stores only the
// answer.
func (c *call[TX]) commit(ctx context.Context, txn transaction[TX], r ran) verdict {
	uncancelled := c.uncancelled(ctx)
	defer uncancelled.end()
	// The ticket is taken before COMMIT: if the operation is forgotten meanwhile, the cache refuses the result.
	c.ticket = c.e.cache.Ticket()
	if c.e.shared != nil {
		c.sent = time.Now()
	}
	began := c.e.clock()
	if txn.byCommit && (r.rollback || !txn.blind) { // since Begin has checked this, another call may have done the operation, and a sweeper may have deleted the record
		r.change.StaleAfter = c.e.tooLateFrom(&c.op)
	}
	if r.rollback {
		switch err := txn.Rollback(uncancelled); store.KindOf(err) {
		case store.KindEnded, store.KindRetry, store.KindBusy, store.KindTaken: // the rollback has found more than the handler's error says
			return c.committed(ctx, txn, r.change, err)
		}
		if !txn.joined { // the Commit of a join may follow its Rollback, and then writes only the record
			return c.swap(ctx, uncancelled, r.change)
		}
	}
	err := txn.Commit(uncancelled, r.change)
	c.report.commit = c.e.since(began)
	if txn.byCommit && c.wasDoneBefore(ctx, err) {
		return verdict{err: c.fail(CodeConflict, EffectNotApplied, &store.Error{Kind: store.KindTaken, Err: err}), again: true}
	}
	v := c.committed(ctx, txn, r.change, err)
	v.provisional = txn.joined && v.err == nil
	return v
}

// change returns the change that the store must commit when the operation is done.
func (c *call[TX]) change(res store.Result) (change store.Change, err error) {
	if c.id.IsZero() { // the store writes no record, but the caller gets the result
		change.Next.Result = res
		return change, fits(change.Next)
	}
	var own struct { // both in one allocation
		claim       [16]byte
		fingerprint Fingerprint
	}
	// By this nonce the call recognises its own record after the answer to COMMIT was lost.
	rand.Read(own.claim[:])
	change = store.Change{
		ID:     c.id,
		Next:   store.Record{State: store.StateDone, Fence: 1, Nonce: own.claim[:], Result: res, Trace: c.report.trace, Name: c.op.Name},
		Retain: c.e.retain(&c.op),
	}
	if own.fingerprint = c.op.Fingerprint; !own.fingerprint.isZero() {
		change.Next.Fingerprint = own.fingerprint[:]
	}
	if change.Next.Request, err = c.encryptedRequest(); err != nil {
		return change, err
	}
	return change, fits(change.Next)
}

// encryptedRequest returns Operation.Request, encrypted. It returns nil if the request is empty, or if the engine has no Encrypter.
func (c *call[TX]) encryptedRequest() (_ []byte, err error) {
	if c.e.cfg.Encrypter != nil && len(c.op.Request) > 0 && c.request == nil {
		c.request, err = c.e.cfg.Encrypter.Encrypt(c.op.Request, seal.Label(c.id.Scope, c.id.Key))
	}
	return c.request, err
}

// maxRecord is the size in bytes above which no database stores a result and a request: a value of SQLite ends
// at 10^9 bytes, and a field and a message of PostgreSQL a little later. The constant leaves room for the rest
// of the row. The configured limit of a database may be far lower.
const maxRecord = 1_000_000_000 - 1<<20

// fits returns an error if no database can store the record.
func fits(rec store.Record) error {
	n := int64(len(rec.Result.Body)) + int64(len(rec.Request))
	for _, f := range rec.Result.Header {
		n += int64(len(f.Name) + len(f.Value))
	}
	if n <= maxRecord {
		return nil
	}
	return &toolarge.Error{Bytes: n, Max: maxRecord, Try: "a smaller result, such as the name of a file"}
}

// committed returns the verdict on the answer to a commit.
func (c *call[TX]) committed(ctx context.Context, txn transaction[TX], ch store.Change, err error) verdict {
	if err == nil {
		if !c.id.IsZero() && c.report.from == "" {
			c.report.from = store.StateAbsent.String()
		}
		return verdict{rec: ch.Next}
	}
	kind := store.KindOf(err)
	if kind == store.KindLost && !c.e.irrevocable {
		return c.settle(ctx, txn, ch, err)
	}
	return c.storeFailed(outcomesOf(kind).commit, err)
}

// swap stores an answer whose handler's writes were rolled back.
func (c *call[TX]) swap(ctx, uncancelled context.Context, ch store.Change) verdict {
	if ch.ID.IsZero() {
		return verdict{rec: ch.Next}
	}
	rec, err := c.e.store.Swap(uncancelled, ch)
	if err != nil && store.KindOf(err) == store.KindTaken && rec.State != store.StateAbsent {
		if rec.State == store.StateDone && c.e.cfg.Synced { // Begin will read it durably
			return c.storeFailed(conflict, err)
		}
		return c.found(rec)
	}
	v := c.committed(ctx, transaction[TX]{}, ch, err)
	if store.KindOf(err) == store.KindLost && v.again {
		// A Swap in flight holds no claim. So if the record is absent, the Swap may still be applied later, and another run
		// could not be sure either.
		v = c.storeFailed(unsettled, err)
	}
	return v
}

// wasDoneBefore reports whether a claiming commit has failed because the operation was done before. It must read the record: a store may
// refuse a statement before it has sent the claim, and then the error does not tell.
func (c *call[TX]) wasDoneBefore(ctx context.Context, err error) bool {
	if err == nil || c.id.IsZero() || ctx.Err() != nil {
		return false
	}
	// Errors of these kinds already tell the state of the claim.
	switch store.KindOf(err) {
	case store.KindTaken, store.KindLost, store.KindStale, store.KindRetry:
		return false
	}
	state, _ := c.stateNow(ctx)
	return state != store.StateAbsent
}

// uncancelled is a context for work that must be finished even if the caller has gone. It has the caller's values, and its own deadline.
// Its timer is made only when a caller waits for the deadline, and not when the store only reads it.
type uncancelled struct {
	lazy.Context

	caller callersValues
}

// uncancelled returns an [uncancelled] that lasts for Config.Settle. The caller must call end.
func (c *call[TX]) uncancelled(ctx context.Context) *uncancelled {
	u := &uncancelled{caller: callersValues{ctx}}
	u.Parent, u.Until = &u.caller, lazy.Now().Add(c.e.cfg.Settle)
	return u
}

// end stops the timer.
func (u *uncancelled) end() { u.Cancel(nil) }

// callersValues is what context.WithoutCancel returns, in a form that can be embedded. [context.Cause] still finds the caller's cause in
// it. A context that embeds it hides that cause as soon as it has ended itself.
type callersValues struct {
	context.Context //nolint:containedctx // the context of the caller
}

func (callersValues) Deadline() (time.Time, bool) { return time.Time{}, false }
func (callersValues) Done() <-chan struct{}       { return nil }
func (callersValues) Err() error                  { return nil }

// settle finds out whether a commit was applied whose answer was lost: either the record exists, or the claim can be taken
// again.
func (c *call[TX]) settle(ctx context.Context, txn transaction[TX], ch store.Change, lost error) verdict {
	c.observe(ctx, EventInDoubt, lost)
	c.sent = time.Time{} // Config.Shared gets only results whose COMMIT was answered
	if ch.ID.IsZero() {
		return verdict{err: c.fail(CodeUnavailable, EffectInDoubt, lost)}
	}
	uncancelled := c.uncancelled(ctx)
	defer uncancelled.end()
	ctx = uncancelled
	applied := false
	for delay := firstDelay; ; delay = min(2*delay, 200*time.Millisecond) {
		// Durable, because a record that only this server has seen may still be lost in a failover.
		again, rec, err := c.e.store.Begin(ctx, store.BeginOptions{ID: ch.ID, Durable: true})
		applied = applied || err == nil && bytes.Equal(rec.Nonce, ch.Next.Nonce)
		switch {
		case again != nil && applied:
			// The commit was applied, and the clock of the store has jumped past the retention of the record. Stored
			// again, the record can be replayed, and is durable. The handler's writes are there.
			kept := ch
			kept.Writes = nil
			if err = again.Commit(ctx, kept); err == nil {
				c.observe(ctx, EventSettled, nil)
				return verdict{rec: ch.Next}
			}
		case again != nil: // the claim is free: the commit's own claim is over, so the commit can no longer be applied
			_ = again.Rollback(ctx)
			if c.isAbsent(ctx, ch) {
				switch {
				case c.lostClaim != claimNotLost:
				case txn.byCommit: // no claim excludes the lost commit, which may still arrive: if this call runs again, the key decides which of the two is applied
					c.lostClaim = claimMayArrive
				default:
					c.observe(ctx, EventSettled, lost)
				}
				return verdict{err: c.fail(CodeUnavailable, EffectNotApplied, lost), again: true}
			}
		case err == nil && rec.State == store.StateDone && applied: // after the retention, another call may have done the operation again
			c.observe(ctx, EventSettled, nil)
			return verdict{rec: ch.Next, superseded: !bytes.Equal(rec.Nonce, ch.Next.Nonce)}
		case err == nil && rec.State == store.StateDone: // the record of another call, so ours was not applied
			c.observe(ctx, EventSettled, lost)
			return c.found(rec)
		}
		if !sleep.For(ctx, delay) {
			return verdict{err: c.fail(CodeUnavailable, EffectInDoubt, errors.Join(lost, err))}
		}
	}
}

// isAbsent looks once more after the claim was found free. The look-up of Begin may have used a snapshot from before its claim, and may
// have missed a commit that was applied just then.
func (c *call[TX]) isAbsent(ctx context.Context, ch store.Change) bool {
	rec, err := c.e.store.Read(ctx, ch.ID)
	return err == nil && rec.State == store.StateAbsent && !bytes.Equal(rec.Nonce, ch.Next.Nonce)
}
