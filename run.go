package once

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/oncelib/once/internal/base/ability"
	"github.com/oncelib/once/internal/engine/current"
	"github.com/oncelib/once/internal/sql/kind"
	"github.com/oncelib/once/store"
)

// frame is one run of a handler. It is also the context that the handler gets.
type frame struct {
	context.Context //nolint:containedctx // it is a context itself

	engine any // the engine that runs the handler
	tx     any // the transaction, or the *Batch if no transaction exists yet
	id     store.ID
	outer  *frame // the frame of the handler that has called this Join; else nil
	over   atomic.Bool

	current current.Operation // for packages that add writes of their own, such as an outbox
}

// Value implements [context.Context].
func (f *frame) Value(key any) any {
	switch key {
	case f.engine:
		return f
	case current.Key{}:
		return &f.current
	}
	return f.Context.Value(key)
}

// currentFrame returns the innermost running handler that ctx belongs to, or nil. A goroutine that the handler
// has started may outlive the handler: then the handler's frame is over.
func (e *Engine[TX]) currentFrame(ctx context.Context) *frame {
	f, _ := ctx.Value(e).(*frame)
	for f != nil && f.over.Load() {
		f = f.outer
	}
	return f
}

// ran is the end of one run of the handler.
type ran struct {
	change   store.Change
	rollback bool  // the handler's writes must be undone before the change is made
	err      error // not nil: the run has no change, and the transaction was rolled back
	undo     error // the error of the rollback that followed
}

// ErrClaimLost is the cause ([context.Cause]) with which a handler's context ends if the store has ended the handler's claim (its right
// to execute the operation). The store ends a claim that was idle for too long (Timeouts.Idle on SQLite), or whose lease has expired.
// After the store has ended the claim, no later write of the handler is committed.
var ErrClaimLost = errors.New("the store has ended the claim of this operation while the handler was running, so its writes were not committed. Try: a longer Timeouts.Idle or lease, or a shorter handler")

// execute runs the handler in an open transaction, and commits.
func (c *call[TX]) execute(ctx context.Context, txn transaction[TX], h handler[TX]) verdict {
	c.runs++
	if !c.id.IsZero() && !txn.blind {
		c.report.from = store.StateAbsent.String()
		if w, ok := store.As[ability.Witness](txn.Transaction); ok && c.e.irrevocable {
			c.report.from, c.report.left = w.Found(), w
		}
	}
	within := ctx
	if txn.expiring != nil {
		own, cancel := context.WithCancelCause(ctx)
		defer cancel(nil) // only after the transaction has ended, because rows may be open until then
		defer txn.expiring.OnEnd(func() { cancel(ErrClaimLost) })()
		within = own
	}
	r := c.run(ctx, within, txn, h)
	if r.err != nil {
		return c.runFailed(ctx, txn, r)
	}
	return c.commit(ctx, txn, r)
}

// run runs the handler in an open transaction. within is the handler's context. If the run ends without a change, the transaction is rolled
// back: after an error, after runtime.Goexit, and after a panic of any code (the handler, the encryption, the observer).
func (c *call[TX]) run(ctx, within context.Context, txn transaction[TX], h handler[TX]) (r ran) {
	returned := false
	began := c.e.clock()
	defer func() {
		if returned && r.err == nil {
			return
		}
		// Before finish, so that the last event knows the result of the rollback.
		r.undo = c.undo(ctx, txn)
		if !returned {
			c.report.handler = c.e.since(began)
			c.finish(ctx, c.panicked(r.undo))
		}
	}()
	c.observe(ctx, EventClaimed, nil)
	tx := txn.Tx()
	own := &frame{Context: within, engine: c.e, tx: tx, id: c.id}
	own.current.ID = c.id
	defer own.over.Store(true) // even if the handler panics
	if txn.joined {
		own.outer, _ = ctx.Value(c.e).(*frame)
	}
	// A batch only declares its writes. A Join runs within a handler that has its own watch.
	if h.batch == nil && !txn.joined && c.e.cfg.SlowHandler > 0 {
		defer c.watch(ctx)()
	}
	var a Answer
	var writes []store.Statement
	if h.batch != nil {
		b := &Batch{of: &own.current}
		own.tx = b
		a, r.err = b.run(own, h.batch)
		writes = b.writes
	} else {
		a, r.err = h.inTx(own, tx)
	}
	c.report.handler = c.e.since(began)
	if r.err == nil {
		if r.rollback = a.Rollback && !c.e.irrevocable; r.rollback {
			a.Result.RolledBack = true
		} else {
			a.Result.Events = own.current.Events()
		}
		r.change, r.err = c.change(a.Result)
	}
	// A batch that is rolled back stores only its answer.
	if !a.Rollback {
		r.change.Writes = writes
	}
	if r.err == nil && !a.Rollback {
		c.observeEffectOutside(ctx, txn, a, len(writes))
	}
	returned = true
	return r
}

var errPanic = errors.New("the handler panicked")

// panicked returns the verdict on a handler that has not returned.
func (c *call[TX]) panicked(undo error) verdict {
	switch kind := store.KindOf(undo); kind {
	case store.KindEnded, store.KindPartial, store.KindUncertain:
		return c.storeFailed(outcomesOf(kind).commit, errors.Join(errPanic, undo))
	case store.KindLost: // the handler may have committed before
		return verdict{err: c.fail(CodeFailed, EffectInDoubt, errors.Join(errPanic, undo))}
	}
	return verdict{err: c.fail(CodeFailed, EffectNotApplied, errPanic)}
}

// undo rolls the transaction back, even if ctx is cancelled.
func (c *call[TX]) undo(ctx context.Context, txn transaction[TX]) error {
	uncancelled := c.uncancelled(ctx)
	defer uncancelled.end()
	return txn.Rollback(uncancelled)
}

// runFailed returns the verdict on a run that has failed.
func (c *call[TX]) runFailed(ctx context.Context, txn transaction[TX], r ran) verdict {
	err, unanswered := r.err, false
	switch kind := store.KindOf(r.undo); kind {
	case store.KindEnded, store.KindPartial, store.KindUncertain: // the record cannot show whether the handler's writes were committed
		return c.storeFailed(outcomesOf(kind).commit, errors.Join(r.undo, err))
	case store.KindTaken: // another call has taken the delayed claim, and the handler may have wrapped or ignored that error
		return c.storeFailed(conflict, r.undo)
	case store.KindRetry, store.KindBusy:
		err = errors.Join(r.undo, err) // first, because the kind of the rollback's error counts
	default:
		if unanswered = r.undo != nil; unanswered && txn.joined { // the caller's transaction is no longer usable
			err = errors.Join(err, r.undo)
		}
	}
	if store.KindOf(err) == store.KindEnded { // a Join inside the handler has returned this error
		return c.storeFailed(outcomesOf(store.KindEnded).handler, err)
	}
	// A lost race may look like an error of the handler, such as a duplicate key that the winner has inserted.
	// Then the next try replays.
	if looks := !c.id.IsZero() && !txn.joined && !c.e.irrevocable && (ctx.Err() == nil || unanswered); looks {
		switch state, known := c.stateNow(ctx); {
		case !known && store.KindOf(r.undo) == store.KindLost:
			return verdict{err: c.fail(CodeUnavailable, EffectInDoubt, errors.Join(err, errMayHaveCommitted))}
		case state == store.StateUnknown && unanswered:
			return verdict{err: c.fail(CodeMisuse, EffectInDoubt, errors.Join(err, errCommitted))}
		case state == store.StateDone, state == store.StateUnknown: // another call has done the operation, and the next try finds its record
			return verdict{err: c.fail(CodeConflict, EffectNotApplied, &store.Error{Kind: store.KindTaken, Err: err}), again: true}
		}
	}
	if v, is := c.joinFailed(txn, err); is {
		return v
	}
	o := outcomesOf(kind.In(c.e.store, err)).handler
	if !o.again && ctx.Err() != nil { // the end of ctx is the cause, whatever error the handler has made of it
		o = unavailable
	}
	return c.storeFailed(o, err)
}

// stateNow reads the stored state after a handler has failed. [store.StateDone] means that another call was faster. Begin may have
// missed that, because Attempt.Number is 1 or because its snapshot is older than its claim. The handler has then failed because of
// an effect of its own operation. [store.StateUnknown] means that the handler has ended its transaction with a COMMIT of its own, if
// the store can detect that. It does not mean that a ROLLBACK was not answered. known is false if the store did not answer.
func (c *call[TX]) stateNow(ctx context.Context) (state store.State, known bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second) // a short time, because the answer only makes the error more precise
	defer cancel()
	rec, err := c.e.store.Read(ctx, c.id)
	if err != nil {
		return store.StateAbsent, false
	}
	return rec.State, true
}

var errMayHaveCommitted = errors.New("the handler has run a procedure or dynamic SQL, which may have committed the transaction, and the store is not available to find this out. Try: call again with the same key")

var errCommitted = errors.New("the handler has ended its transaction itself, so its writes may be committed without a record. Try: remove COMMIT from the procedures and the dynamic SQL that the handler runs")
