package once

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/oncelib/once/store"
)

// frame is a run of a handler, and the context that it is given.
type frame struct {
	context.Context //nolint:containedctx // it is one

	engine any // whose it is
	tx     any // or the *Batch, in place of the transaction that is not there yet
	id     store.ID
	outer  *frame // of a Join: the handler that it is in
	over   atomic.Bool
}

// Value implements [context.Context].
func (f *frame) Value(key any) any {
	if key == f.engine {
		return f
	}
	return f.Context.Value(key)
}

// currentFrame returns the innermost handler that ctx belongs to and that still runs, nil if
// there is none. What a handler has started may outlive it.
func (e *Engine[TX]) currentFrame(ctx context.Context) *frame {
	f, _ := ctx.Value(e).(*frame)
	for f != nil && f.over.Load() {
		f = f.outer
	}
	return f
}

// rollbackAnswer is what is known of the ROLLBACK after a run that has failed.
type rollbackAnswer uint8

const (
	rollbackDone          rollbackAnswer = iota
	rollbackUnanswered                   // the connection was given up
	rollbackAfterCommit                  // it was not answered, and the handler may have committed before
	rollbackOfOthersClaim                // there was no claim: it was put off, and another call had it
)

// execute runs fn on an open transaction and commits.
func (c *call[TX]) execute(ctx context.Context, txn store.Claim[TX], fn func(context.Context, TX) (Answer, error)) verdict {
	c.runs++
	if !c.id.IsZero() && !c.claimsAtCommit {
		c.report.from = store.StateAbsent.String()
	}
	change, rollback, err := c.run(ctx, txn, fn)
	if err != nil {
		return c.runFailed(ctx, err)
	}
	return c.commit(ctx, txn, change, rollback)
}

// run runs fn on an open transaction and returns what is to be committed. If it
// does not get that far, the transaction is rolled back: on an error, on
// runtime.Goexit, and on a panic of any code (fn, the encryption, the observer).
func (c *call[TX]) run(ctx context.Context, txn store.Claim[TX], fn func(context.Context, TX) (Answer, error)) (change store.Change, rollback bool, err error) {
	returned := false
	began := c.e.clock()
	defer func() {
		if returned && err == nil {
			return
		}
		v := verdict{err: c.fail(CodeFailed, EffectNotApplied, errPanic)}
		switch end := c.undo(ctx, txn); store.KindOf(end) {
		case store.KindEnded:
			v.err = c.fail(CodeMisuse, EffectInDoubt, errors.Join(errPanic, end))
			err = errors.Join(end, err) // first, so that its kind counts and not that of the handler's error
		case store.KindRetry, store.KindBusy:
			err = errors.Join(end, err)
		case store.KindTaken:
			c.rollback, err = rollbackOfOthersClaim, end // whatever the handler has made of that
		default:
			c.rollback = answerOf(end)
			if end != nil && c.kind == inCallersTransaction {
				err = errors.Join(err, end) // the caller's transaction is not usable
			}
		}
		if !returned {
			c.report.handler = c.e.since(began)
			c.finish(ctx, v)
		}
	}()
	c.observe(ctx, EventClaimed, nil)
	tx := txn.Tx()
	own := &frame{Context: ctx, engine: c.e, tx: tx, id: c.id}
	switch c.kind {
	case inCallersTransaction:
		own.outer, _ = ctx.Value(c.e).(*frame)
	case asBatch:
		own.tx = new(Batch)
	}
	defer own.over.Store(true) // also if fn panics
	a, err := fn(own, tx)
	c.report.handler = c.e.since(began)
	if err == nil {
		if a.Rollback {
			a.Result = a.Result.MarkRolledBack()
		}
		change, err = c.change(a.Result)
	}
	if !a.Rollback {
		change.Writes = a.writes
	}
	if err == nil && !a.Rollback {
		c.observeEffectOutside(ctx, txn, a)
	}
	returned = true
	return change, a.Rollback, err
}

var errPanic = errors.New("the handler panicked")

// undo rolls back, cancelled or not.
func (c *call[TX]) undo(ctx context.Context, txn store.Claim[TX]) error {
	uncancelled := c.uncancelled(ctx)
	defer uncancelled.end()
	return txn.Rollback(uncancelled)
}

// answerOf returns what err, of a Rollback, tells of it.
func answerOf(err error) rollbackAnswer {
	switch {
	case err == nil:
		return rollbackDone
	case store.KindOf(err) == store.KindLost:
		return rollbackAfterCommit
	}
	return rollbackUnanswered
}

// runFailed is the verdict after a run that has failed.
func (c *call[TX]) runFailed(ctx context.Context, err error) verdict {
	if store.KindOf(err) == store.KindEnded { // the handler has committed: what is stored says nothing about that
		return c.storeFailed(outcomesOf(store.KindEnded).handler, err)
	}
	if c.rollback == rollbackOfOthersClaim {
		c.rollback = rollbackDone
		return c.storeFailed(outcomesOf(store.KindTaken).commit, err)
	}
	switch state, known := c.stateNow(ctx); {
	case !known && c.rollback == rollbackAfterCommit:
		return verdict{err: c.fail(CodeUnavailable, EffectInDoubt, errors.Join(err, errMayHaveCommitted))}
	case state == store.StateUnknown && c.rollback != rollbackDone:
		return verdict{err: c.fail(CodeMisuse, EffectInDoubt, errors.Join(err, errCommitted))}
	case state == store.StateDone, state == store.StateUnknown: // of another call: the next try finds it
		return verdict{err: c.fail(CodeConflict, EffectNotApplied, &store.Error{Kind: store.KindTaken, Err: err}), again: true}
	}
	if v, is := c.joinFailed(err); is {
		return v
	}
	o := outcomesOf(c.e.classify(err)).handler
	if !o.again && ctx.Err() != nil { // whatever the handler has made of its end
		o = unavailable
	}
	return c.storeFailed(o, err)
}

// stateNow looks, after a handler has failed, at what is stored. It is [store.StateDone] if another call
// was faster: Begin may have missed that (Operation.First, or a snapshot that is older than
// its claim), and then the handler has met its own effect. It is [store.StateUnknown] if the handler
// has committed from below, where a store can tell so; a ROLLBACK that was not answered
// has not. It is not known if the store cannot be asked.
func (c *call[TX]) stateNow(ctx context.Context) (state store.State, known bool) {
	if c.id.IsZero() || c.kind == inCallersTransaction || ctx.Err() != nil && c.rollback == rollbackDone {
		return store.StateAbsent, true
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second) // it only improves an answer
	defer cancel()
	rec, err := c.e.store.Read(ctx, c.id)
	if err != nil {
		return store.StateAbsent, false
	}
	return rec.State, true
}

var errMayHaveCommitted = errors.New("the handler has run a procedure or dynamic SQL, which may have committed, and the store cannot be asked. Try: the same key again")

var errCommitted = errors.New("the handler has committed, and its effect may stand. Try: no COMMIT in procedures and dynamic SQL that a handler runs")
