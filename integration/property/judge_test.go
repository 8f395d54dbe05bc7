package property

import (
	"bytes"
	"fmt"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
)

// judge holds what a caller was told against what is in the store, and remembers what
// must not happen any more.
func (w *world) judge(c *call) error {
	c.over = true
	switch {
	case c.broken != nil:
		return fmt.Errorf("panic: %v", c.broken)
	case c.node.dead:
		return nil // no client has listened
	}
	for _, a := range c.answers {
		w.tellf("group %d is told: %s %q %t %v", c.seq, a.op.id.Key, a.name, a.replayed, a.err)
		if c.joins && !c.commits {
			w.forbid(a, nil, "the caller's transaction did not commit")
			continue
		}
		if err := w.judgeOne(c, a); err != nil {
			return fmt.Errorf("%s: %w", a.op.id.Key, err)
		}
	}
	if c.joins {
		w.meet(map[bool]string{true: metJoinCommitted, false: metJoinUndone}[c.commits])
		return nil
	}
	return reported(c)
}

// forbid forbids the runs of a but one.
func (w *world) forbid(a *answer, but *run, why string) {
	for _, r := range a.runs {
		if r != but && !r.superseded() {
			r.forbid(why)
		}
	}
}

func (w *world) judgeOne(c *call, a *answer) error {
	var last *run
	if n := len(a.runs); n > 0 {
		last = a.runs[n-1]
	}
	switch {
	case a.unwound:
		w.meet(metUnwound)
		w.forbid(a, nil, "its handler never returned")
		return nil
	case a.err != nil:
		return w.judgeError(c, a, last)
	}
	r := w.runs[a.name]
	if r == nil {
		return fmt.Errorf("the answer %q belongs to no run", a.name)
	}
	w.forbid(a, r, "another answer was given")
	holds := a.op.said(c, func(v *version) bool {
		return v.run == r && v.rec.State == store.StateDone && (len(v.rec.Fingerprint) == 0 || len(a.fp) == 0 || bytes.Equal(v.rec.Fingerprint, a.fp))
	})
	switch {
	case !holds:
		return fmt.Errorf("the answer of run %s (replayed %t) is not that of the operation", r.name, a.replayed)
	case !a.replayed && r != last:
		return fmt.Errorf("run %s is said to be this call's", r.name)
	case !a.replayed:
		w.meet(metExecuted)
		if c.ctx.Err() != nil {
			w.meet(metCancelledApplied)
		}
	case c.node.synced && !c.joins && c.asked && !c.durable:
		return fmt.Errorf("run %s is replayed, and no call has asked for a durable record", r.name)
	default:
		w.meet(metReplayed)
		if !c.asked {
			w.meet(map[bool]string{true: metCached, false: metCoalesced}[c.alone])
		}
		if len(a.runs) > 0 {
			w.meet(metBeaten)
		}
	}
	return nil
}

func (w *world) judgeError(c *call, a *answer, last *run) error {
	code := once.CodeOf(a.err)
	w.meet(string(code))
	if code == once.CodeMismatch && c.alone && !c.asked {
		w.meet(metCachedMismatch)
	}
	switch effect := once.EffectOf(a.err); effect {
	case once.EffectApplied:
		return fmt.Errorf("%w: every answer here is kept", a.err)
	case once.EffectNotApplied:
		w.forbid(a, nil, "its caller was told that it did not: "+a.err.Error())
	default:
		unknown := code == once.CodeUnknown && a.op.since(c.began, func(v *version) bool {
			return v.rec.State == store.StateUnknown || v.rec.State == store.StateRunning && v.rec.CallStarted
		})
		// After a ROLLBACK without an answer, what stands as unknown may be the handler's.
		unknown = unknown || c.unsure && code == once.CodeMisuse && a.op.since(c.began, func(v *version) bool {
			return v.rec.State == store.StateUnknown
		})
		ended := last != nil && (last.ending == committing || last.ending == rollingBack)
		switch {
		case !c.lost && !unknown && !ended:
			return fmt.Errorf("%w: in doubt, though no answer was lost", a.err)
		case ended:
			w.forbid(a, last, "it was undone")
		case !c.lost:
			w.forbid(a, nil, "it was undone")
		case code != once.CodeUnknown && last != nil:
			w.meet(map[bool]string{true: metDoubtApplied, false: metDoubtUndone}[last.recorded])
		}
	}
	switch {
	case code == once.CodeMismatch && !a.op.said(c, func(v *version) bool {
		return len(v.rec.Fingerprint) > 0 && len(a.fp) > 0 && !bytes.Equal(v.rec.Fingerprint, a.fp)
	}):
		return fmt.Errorf("%w: no call has asked for anything else", a.err)
	case code == once.CodeAborted && (last == nil || last.ending != swallowing):
		return fmt.Errorf("%w: nothing was swallowed", a.err)
	case code == once.CodeInvalid, code == once.CodeNoResult, code == once.CodeStale:
		return fmt.Errorf("%w: there was no reason", a.err)
	}
	return nil
}

// reported compares the events of a call with what it was told.
func reported(c *call) error {
	a := c.answers[0]
	finished := 0
	var e once.Event
	for _, e = range c.events {
		if e.Type == once.EventFinished {
			finished++
		}
	}
	effect := once.EffectApplied
	if r := c.node.w.runs[a.name]; r != nil && r.ending == declining { // its writes were rolled back
		effect = once.EffectNotApplied
	}
	switch {
	case a.err != nil:
		effect = once.EffectOf(a.err)
	case a.unwound:
		effect = e.Effect
	}
	if finished != 1 || e.Type != once.EventFinished || e.Effect != effect || a.err != nil && once.Outcome(once.CodeOf(a.err)) != e.Outcome {
		return fmt.Errorf("the observer was told %+v, the caller %w", c.events, a.err)
	}
	return nil
}

// superseded reports whether r has expired, before its caller was told, and was then done
// again: nothing is left that could tell.
func (r *run) superseded() bool {
	n := len(r.op.past)
	return r.recorded && r.epoch < r.op.epoch && n > 0 && r.op.past[n-1].run != r
}
