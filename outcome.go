package once

import (
	"errors"
	"time"

	"github.com/oncelib/once/internal/base/ability"
	"github.com/oncelib/once/store"
)

// verdict is the end of one try.
type verdict struct {
	rec        store.Record
	replayed   bool
	err        error
	again      bool // nothing was applied, and another try may succeed
	superseded bool // this call has written rec, but the operation has expired and was done again since

	provisional bool // the result is valid only if the caller's transaction commits
}

// effect returns the effect of a stored answer. Its writes are committed, unless they were rolled back before the answer was
// stored.
func (v verdict) effect() Effect {
	if v.rec.Result.RolledBack {
		return EffectNotApplied
	}
	return EffectApplied
}

// outcome is what a store's error means for the call.
type outcome struct {
	code   Code
	effect Effect
	again  bool // nothing was applied, and another try may succeed
}

var (
	aborted       = outcome{code: CodeAborted, effect: EffectNotApplied}
	conflict      = outcome{code: CodeConflict, effect: EffectNotApplied, again: true}
	failed        = outcome{code: CodeFailed, effect: EffectNotApplied}
	failedInDoubt = outcome{code: CodeFailed, effect: EffectInDoubt} // earlier steps were committed; later ones may be missing
	misuse        = outcome{code: CodeMisuse, effect: EffectNotApplied}
	misuseInDoubt = outcome{code: CodeMisuse, effect: EffectInDoubt}
	tooLate       = outcome{code: CodeStale, effect: EffectNotApplied}
	uncertain     = outcome{code: CodeUnknown, effect: EffectInDoubt}
	unavailable   = outcome{code: CodeUnavailable, effect: EffectNotApplied}
	unsettled     = outcome{code: CodeUnavailable, effect: EffectInDoubt}
)

// outcomes has the outcome of one kind of store error for each place where the error may come from.
type outcomes struct {
	begin   outcome // Begin or Join: the handler has not run
	handler outcome // the handler, whose writes were rolled back: its own error fails the call, whatever error it wraps
	commit  outcome // Commit or Swap; or Rollback, if its error tells more than the handler's error
}

// outcomesByKind is the only table from the kinds of store errors to outcomes.
var outcomesByKind = [...]outcomes{
	store.KindOther:       {begin: unavailable, handler: failed, commit: failed}, // in COMMIT: a deferred constraint, or a write that was sent with it
	store.KindTaken:       {begin: unavailable, handler: failed, commit: conflict},
	store.KindRetry:       {begin: conflict, handler: conflict, commit: conflict},
	store.KindAborted:     {begin: aborted, handler: failed, commit: aborted},
	store.KindMisused:     {begin: misuse, handler: failed, commit: misuse},
	store.KindUnavailable: {begin: unavailable, handler: failed, commit: unavailable},
	store.KindLost:        {begin: unavailable, handler: failed, commit: unsettled}, // unless settle finds out the outcome
	store.KindEnded:       {begin: misuse, handler: misuseInDoubt, commit: misuseInDoubt},
	store.KindBusy:        {begin: unavailable, handler: unavailable, commit: unavailable},
	store.KindStale:       {begin: tooLate, handler: failed, commit: tooLate},
	store.KindPartial:     {begin: failedInDoubt, handler: failed, commit: failedInDoubt},
	store.KindUncertain:   {begin: uncertain, handler: failed, commit: uncertain},
}

// outcomesOf returns the outcomes of k. A kind of a newer store counts as [store.KindOther].
func outcomesOf(k store.Kind) outcomes {
	if int(k) >= len(outcomesByKind) {
		k = store.KindOther
	}
	return outcomesByKind[k]
}

// storeFailed returns the verdict on err, whose outcome is o.
func (c *call[TX]) storeFailed(o outcome, err error) verdict {
	return verdict{err: c.fail(o.code, o.effect, err), again: o.again}
}

// beginFailed returns the verdict on the error of a Begin or Join.
func (c *call[TX]) beginFailed(err error) verdict {
	kind := store.KindOf(err)
	if kind == store.KindRetry {
		c.runs++ // the loop must end even if a store always returns KindRetry
	}
	return c.storeFailed(outcomesOf(kind).begin, err)
}

var errMismatch = errors.New("an earlier call with this key had a different request (another Operation.Fingerprint). Try: send the same request as the first time, or use a different key for a different intent")

// found returns the verdict on a record that makes it unnecessary or impossible to run.
func (c *call[TX]) found(rec store.Record) verdict {
	v := verdict{rec: rec}
	c.report.from = rec.State.String()
	if rec.State == store.StateDone {
		c.lostClaim = claimNotLost // either that commit was applied, or it will fail because the key is taken
	}
	switch {
	case !c.op.Fingerprint.matches(rec.Fingerprint):
		v.err = c.fail(CodeMismatch, EffectNotApplied, errMismatch)
	case rec.State == store.StateDone:
		v.replayed = true
	case rec.State == store.StateUnknown, rec.Idle() && rec.CallStarted && !c.e.irrevocable: // an external call may have taken effect
		var cause error
		if rec.Checkable {
			cause = ability.ErrCheckable
		}
		v.err = c.fail(CodeUnknown, EffectInDoubt, cause)
	default: // also if the lease is over: its owner may still store the answer, until a later caller has stored that the outcome is unknown
		v.err = c.fail(CodeInFlight, EffectNotApplied, nil)
	}
	return v
}

func (c *call[TX]) invalid(cause error) verdict {
	return verdict{err: c.fail(CodeInvalid, EffectNotApplied, cause)}
}

// fail returns the error for the caller.
func (c *call[TX]) fail(code Code, effect Effect, cause error) error {
	if c.lostClaim != claimNotLost && effect == EffectNotApplied {
		effect = EffectInDoubt // this try has applied nothing, but an earlier try may still be applied
	}
	err := &Error{Code: code, Effect: effect, Scope: c.op.Scope, Key: c.id.Key, Err: cause}
	switch code {
	case CodeInFlight, CodeUnavailable, CodeConflict:
		err.After = time.Second
	case CodeUnknown:
		if errors.Is(cause, ability.ErrCheckable) { // the next caller makes the store ask
			err.After = time.Second
		}
	}
	return err
}
