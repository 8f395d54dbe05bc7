package saga

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/engine/current"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
)

// compensate undoes the effects of the saga, the last step first. It never runs the flow. It finds each step by its name, and
// passes the stored input and result to its undo.
func (r *run) compensate(ctx context.Context) error {
	for i := range slices.Backward(r.saved.Steps) {
		b := r.saved.Steps[i]
		if b.State != stateDone && b.State != stateCalling {
			continue
		}
		if r.n.isStopping() {
			return r.park(ctx, 0)
		}
		err := r.undoStep(ctx, i)
		if errors.Is(err, errDirection) {
			return err
		}
		if err != nil {
			return r.undoFailed(ctx, b, err)
		}
	}
	result, err := failureResult(r.saved.Turn.Cause)
	if err != nil {
		return r.stick(ctx, err.Error())
	}
	return r.write(ctx, end{saved: r.saved, state: store.StateDone, result: result})
}

// undoFailed decides how the saga continues after a failed undo.
func (r *run) undoFailed(ctx context.Context, b begun, err error) error {
	var again *againError
	var stuck *stuckError
	switch {
	case r.lost != nil:
		return r.lost
	case r.own.HasEnded(), errors.Is(err, errLost):
		return errLost
	case errors.As(err, &stuck):
		return r.stick(ctx, stuck.why)
	case errors.As(err, &again):
		return r.park(ctx, again.after)
	case failureIn(err) != nil && store.KindOf(err) == store.KindOther:
		// The refusal of an undo is final, so another try would not help.
		return r.stick(ctx, fmt.Sprintf("the undo of step %q has returned a final failure: %v", b.full(), err))
	}
	if r.saved.Tries++; r.saved.Tries >= r.n.cfg.UndoAttempts {
		return r.stick(ctx, fmt.Sprintf("the undo of step %q has failed %d times, and the last error is: %v", b.full(), r.saved.Tries, err))
	}
	r.tell(ctx, Event{Type: EventRetried, Step: b.Name, StepKey: b.Key, Undo: true, Tries: r.saved.Tries, Err: err})
	return r.park(ctx, r.n.backoff(r.saved.Tries))
}

// undoStep undoes a step, or resolves a call in flight, after the turn.
func (r *run) undoStep(ctx context.Context, i int) error {
	b := r.saved.Steps[i]
	st := r.def.steps[b.Name]
	switch {
	case !b.Undo && (!b.Pivot || b.State != stateCalling):
		return r.setState(b, stateKept) // without an undo, the outcome of the step does not matter
	case st == nil:
		return stuckf("step %q must perhaps be undone, but the saga in this program has no such step. Try: a program whose saga has the step", b.full())
	}
	if b.State == stateCalling {
		if err := r.resolve(ctx, st, b); err != nil {
			return err
		}
		b = r.saved.Steps[i]
	}
	switch {
	case b.State != stateDone:
		return nil
	case b.Pivot: // the pivot was running when the saga turned: because it has succeeded, the saga goes forward again
		r.saved.Turn, r.saved.Tries = nil, 0
		return errDirection
	}
	return r.traced(ctx, SpanUndo, b, func(ctx context.Context) error { return r.undo(ctx, st, b) })
}

// setState changes the state of a step. The next commit stores it.
func (r *run) setState(b begun, s state) error {
	b.State = s
	r.saved = r.saved.with(b)
	return nil
}

// durable stores the turn, before the turn has an effect at a service.
func (r *run) durable(ctx context.Context) error {
	if r.turned {
		return nil
	}
	return r.write(ctx, end{saved: r.saved, state: store.StateRunning})
}

// undo undoes a finished step.
func (r *run) undo(ctx context.Context, st *step, b begun) error {
	ctx, cancel := r.bounded(ctx, st)
	defer cancel()
	own := new(current.Operation)
	undone := func() end {
		u := b
		u.State = stateUndone
		u.Events = slices.Concat(b.Events, own.Events())
		return end{saved: r.saved.with(u), state: store.StateRunning}
	}
	switch {
	case st.undoTx != nil: // the same commit stores the turn
		return r.commit(ctx, b.full(), func(ctx context.Context, tx any) (end, error) {
			own = &current.Operation{ID: r.id}
			if err := r.protect(ctx, b, func() error { return st.undoTx(current.With(ctx, own), tx, b.Input, b.Result) }); err != nil {
				return end{}, err
			}
			return undone(), nil
		})
	case st.revoke != nil:
		return r.batch(ctx, b, func(w *once.Batch) (end, error) {
			own = &current.Operation{ID: r.id}
			current.Bind(w, own)
			if err := st.revoke(w, b.Input, b.Result); err != nil {
				return end{}, err
			}
			return undone(), nil
		})
	case st.undoCall == nil && st.cancel == nil:
		return stuckf("step %q must be undone, but has no undo in this program. Try: a program in which the step has an undo", b.full())
	}
	if err := r.durable(ctx); err != nil {
		return err
	}
	err := r.protect(ctx, b, func() error {
		if st.undoCall != nil {
			return st.undoCall(ctx, r.undoKey(b), b.Input, b.Result)
		}
		return st.cancel(ctx, r.key(b), b.Input)
	})
	if err != nil {
		return err
	}
	return r.setState(b, stateUndone)
}

// resolve finds out the outcome of a call in flight. A call is never ignored.
func (r *run) resolve(ctx context.Context, st *step, b begun) error {
	if err := r.durable(ctx); err != nil {
		return err
	}
	switch {
	case b.Call == nil || st.kind != kindCall:
		return stuckf("an earlier version of the program has begun step %q as a call, but in this program the step is not a call. Try: a program in which the step is a call", b.full())
	case st.cancel != nil && !b.Pivot: // a cancel is correct, whatever the outcome of the call is
		ctx, cancel := r.bounded(ctx, st)
		defer cancel()
		err := r.traced(ctx, SpanCancel, b, func(ctx context.Context) error {
			return r.protect(ctx, b, func() error { return st.cancel(ctx, r.key(b), b.Input) })
		})
		if err != nil {
			return err
		}
		return r.setState(b, stateUndone)
	case b.Call.repeats(time.Now()):
		err := r.redo(ctx, st, b)
		if errors.Is(err, errLate) { // the call can no longer be repeated
			return r.resolve(ctx, st, b)
		}
		return err
	case st.check == nil || !b.Call.Check:
		return stuckf("the outcome of call %q is unknown, so the saga cannot undo the call: %v", b.full(), errNoAnswer)
	}
	switch found, err := r.ask(ctx, st, &b); {
	case err != nil, found:
		return err
	}
	return r.setState(b, stateFailed) // the service has made sure that the call never happens
}

// redo repeats a call under its key, to find out its outcome.
func (r *run) redo(ctx context.Context, st *step, b begun) error {
	again := !b.Call.permitsOne()
	if !again {
		if err := r.reintend(ctx, st, &b); err != nil {
			return err
		}
	}
	out, err := r.attempt(ctx, st, b, again)
	if err == nil {
		return r.answered(&b, out)
	}
	switch f := failureIn(err); {
	case errors.As(err, new(*againError)):
		r.permit(&b)
		return err
	case lease.IsNotSent(err) && !again: // the service has answered "not yet" to the earlier attempts
		r.permit(&b)
		return errors.New(err.Error()) // without the chain, because a failure in it is not an answer
	// A duplicate says that an earlier attempt was applied, so it is not a refusal.
	case f != nil && f.Code != codeDuplicate && !lease.IsNotSent(err):
		b.Failure = f
		return r.setState(b, stateFailed)
	case f != nil:
		// Without the chain, so that the failure does not count as a refusal of the undo.
		return errors.New(err.Error())
	}
	return err
}
