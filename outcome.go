package once

import (
	"time"

	"github.com/oncelib/once/store"
)

// verdict is how one try has ended.
type verdict struct {
	rec        store.Record
	replayed   bool
	err        error
	again      bool // nothing was applied, and another try may succeed
	superseded bool // rec is this caller's, and the operation has expired and been done again since
}

// effect is that of an answer: its writes stand, unless they were rolled back before it was
// stored.
func (v verdict) effect() Effect {
	if v.rec.Result.RolledBack() {
		return NotApplied
	}
	return Applied
}

// outcome is what an error of the store means for the call.
type outcome struct {
	code   Code
	effect Effect
	again  bool // nothing was applied, and another try may succeed
}

var (
	aborted       = outcome{code: CodeAborted, effect: NotApplied}
	conflict      = outcome{code: CodeConflict, effect: NotApplied, again: true}
	failed        = outcome{code: CodeFailed, effect: NotApplied}
	misuse        = outcome{code: CodeMisuse, effect: NotApplied}
	misuseInDoubt = outcome{code: CodeMisuse, effect: InDoubt}
	tooLate       = outcome{code: CodeStale, effect: NotApplied}
	unavailable   = outcome{code: CodeUnavailable, effect: NotApplied}
	unsettled     = outcome{code: CodeUnavailable, effect: InDoubt}
)

// outcomes are those of one kind of store error, by the place where it came up.
type outcomes struct {
	begin   outcome // Begin or Join: the handler has not run
	handler outcome // the handler, which was rolled back: an error of its own fails the call, whatever it wraps
	commit  outcome // Commit or Swap
}

// outcomesByKind is the one table from kinds to outcomes.
var outcomesByKind = [...]outcomes{
	store.Other:   {begin: unavailable, handler: failed, commit: failed}, // in COMMIT, a deferred constraint or a write that travelled with it
	store.Taken:   {begin: unavailable, handler: failed, commit: conflict},
	store.Retry:   {begin: conflict, handler: conflict, commit: conflict},
	store.Aborted: {begin: aborted, handler: failed, commit: aborted},
	store.Misused: {begin: misuse, handler: failed, commit: misuse},
	store.Down:    {begin: unavailable, handler: failed, commit: unavailable},
	store.Lost:    {begin: unavailable, handler: failed, commit: unsettled}, // unless settle finds out
	store.Ended:   {begin: misuse, handler: misuseInDoubt, commit: misuseInDoubt},
	store.Busy:    {begin: unavailable, handler: unavailable, commit: unavailable},
	store.Stale:   {begin: tooLate, handler: failed, commit: tooLate},
}

// outcomesOf returns the outcomes of k. A kind of a newer store counts as Other.
func outcomesOf(k store.Kind) outcomes {
	if int(k) >= len(outcomesByKind) {
		k = store.Other
	}
	return outcomesByKind[k]
}

// classify returns the kind of an error of the handler, which may be one of the driver.
func (e *Engine[TX]) classify(err error) store.Kind {
	if c, ok := store.As[store.Classifier](e.store); ok {
		return c.Classify(err)
	}
	return store.KindOf(err)
}

// storeFailed is the verdict on err, which has outcome o.
func (c *call[TX]) storeFailed(o outcome, err error) verdict {
	return verdict{err: c.fail(o.code, o.effect, err), again: o.again}
}

// beginFailed is the verdict on the error of a Begin or Join.
func (c *call[TX]) beginFailed(err error) verdict {
	kind := store.KindOf(err)
	if kind == store.Retry {
		c.runs++ // so that a store which always answers Retry ends too
	}
	return c.storeFailed(outcomesOf(kind).begin, err)
}

// found is the verdict on a record that is in the way.
func (c *call[TX]) found(rec store.Record) verdict {
	v := verdict{rec: rec}
	c.report.from = rec.State.String()
	if rec.State == store.Done {
		c.lostBatch.mayArrive = false // or does, and finds the key taken
	}
	switch {
	case !c.op.Fingerprint.matches(rec.Fingerprint):
		v.err = c.fail(CodeMismatch, NotApplied, nil)
	case rec.State == store.Done:
		v.replayed = true
	case rec.State == store.Unknown, rec.Lapsed && rec.Calling: // an external call may have taken effect
		v.err = c.fail(CodeUnknown, InDoubt, nil)
	default:
		v.err = c.fail(CodeInFlight, NotApplied, nil)
	}
	return v
}

func (c *call[TX]) invalid(cause error) verdict {
	return verdict{err: c.fail(CodeInvalid, NotApplied, cause)}
}

// fail returns the error that the caller gets.
func (c *call[TX]) fail(code Code, effect Effect, cause error) error {
	if c.lostBatch.mayArrive && effect == NotApplied {
		effect = InDoubt // this try has applied nothing, the one before may yet do so
	}
	err := &Error{Code: code, Effect: effect, Scope: c.op.Scope, Key: c.id.Key, Err: cause}
	switch code {
	case CodeInFlight, CodeUnavailable, CodeConflict:
		err.After = time.Second
	}
	return err
}
