package saga

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/atmostonce"
	"github.com/oncelib/once/internal/engine/current"
	"github.com/oncelib/once/internal/engine/declared"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
)

// take runs a step, or returns its earlier result. After any error except a failure of the step, the flow can run no further step.
func (r *run) take(ctx context.Context, st *step, key string, in json.RawMessage) (json.RawMessage, error) {
	// A second step at the same time would change the state of the saga while the first one commits it.
	if !r.flow.TryLock() {
		return nil, fmt.Errorf("saga: step %q begins before another step of the saga has ended, or after the flow has returned. Try: run the steps one after the other", st.name)
	}
	defer r.flow.Unlock()
	full := fullName(st.name, key)
	if r.halt != nil {
		return nil, r.halt
	}
	if err := r.permits(st, full); err != nil {
		return nil, r.stop(err)
	}
	r.reached[full] = true
	b := begun{Name: st.name, Key: key, State: stateDone, Input: in, Pivot: st.pivot, Undo: st.isUndone()}
	if i := r.saved.find(full); i >= 0 {
		b = r.saved.Steps[i]
	} else if err := r.begins(full); err != nil {
		return nil, r.stop(err)
	} else if err := r.begin(ctx, st, &b); err != nil {
		return nil, r.failed(st, b, err)
	}
	switch b.State { //nolint:exhaustive // the others occur after the turn
	case stateDone:
		return b.Result, nil
	case stateFailed:
		return nil, b.Failure
	case stateCalling:
		if err := r.resume(ctx, st, &b); err != nil {
			return nil, r.failed(st, b, err)
		}
		return b.Result, nil
	}
	return nil, r.stop(stuckf("the flow has reached step %q, but the state of this step is %s, so the flow cannot run it", full, b.State))
}

// permits returns an error if the flow must not run the step.
func (r *run) permits(st *step, full string) error {
	switch {
	case r.def.steps[st.name] != st:
		return stuckf("the flow runs step %q, which was not passed to saga.New. Try: pass the step to saga.New", full)
	case checkName(full) != nil:
		return stuckf("%v", checkName(full))
	case r.reached[full]:
		return stuckf("the flow runs step %q twice. Try: DoKey, with a different key for each run of the step", full)
	case r.final != nil:
		return errors.New("saga: the saga has ended with its last step")
	}
	return nil
}

// begins returns an error if a new step must not begin now.
func (r *run) begins(full string) error {
	if before := r.unreached(); before != "" { // the flow has left the path of an earlier run
		return stuckf("step %q cannot begin, because the flow has not reached step %q, which an earlier run of the flow has begun. Try: deploy the earlier program again, and use another name for the changed saga", full, before)
	}
	switch {
	case r.n.isStopping():
		return errStop
	// After the deadline the saga turns, so no new step must begin.
	case r.isLate():
		return lateError(r.def.deadline)
	}
	return nil
}

// failed decides how the saga continues after a step without a result.
func (r *run) failed(st *step, b begun, err error) error {
	var again *againError
	var stuck *stuckError
	var turning *turnError
	switch {
	case r.lost != nil:
		return r.stop(r.lost)
	case errors.Is(err, errLost), errors.Is(err, errExists), errors.As(err, &stuck), errors.As(err, &turning), errors.As(err, &again):
		return r.stop(err)
	}
	// A failure inside an error of the store is no answer of the step: the step may have been rolled back for another reason.
	if f := failureIn(err); f != nil && store.KindOf(err) == store.KindOther {
		b.State, b.Failure, b.Result, b.Call = stateFailed, f, nil, nil
		next := r.saved.with(b)
		if err := next.fits(); err != nil {
			return r.stop(stuckf("the failure that step %q has returned cannot be stored: %v", b.full(), err))
		}
		r.saved, r.said = next, true // it is stored with the next commit
		return f
	}
	most := st.attempts
	if most == 0 {
		most = r.n.cfg.Attempts
	}
	return r.stop(&failedError{b, most, err})
}

// begin runs a step for the first time. If the error is nil, the step is done.
func (r *run) begin(ctx context.Context, st *step, b *begun) error {
	if st.kind == kindCall {
		return r.call(ctx, st, b)
	}
	return r.traced(ctx, SpanStep, *b, func(ctx context.Context) error { return r.local(ctx, st, b) })
}

// local runs a step whose writes commit together with the record of the saga.
func (r *run) local(ctx context.Context, st *step, b *begun) error {
	ctx, cancel := r.bounded(ctx, st)
	defer cancel()
	next := end{state: store.StateRunning}
	if st.last {
		next.state = store.StateDone
	}
	ends := func(out json.RawMessage) (end, error) {
		b.Result = out
		next.saved = r.saved.with(b.stored())
		// The step may run again, and must not keep the result of the earlier run.
		next.result = store.Result{}
		if st.last {
			next.result.Body = out
		}
		return next, r.fits(next.saved, b.full())
	}
	var err error
	if st.kind == kindTx {
		err = r.commit(ctx, b.full(), func(ctx context.Context, tx any) (end, error) {
			var out json.RawMessage
			// Each run has its own list of events, because the events of a rolled back run do not exist.
			own := &current.Operation{ID: r.id}
			if err := r.protect(ctx, *b, func() (err error) { out, err = st.runTx(current.With(ctx, own), tx, b.Input); return err }); err != nil {
				return end{}, err
			}
			b.Events = own.Events()
			return ends(out)
		})
	} else {
		err = r.batch(ctx, *b, func(w *once.Batch) (end, error) {
			own := &current.Operation{ID: r.id}
			current.Bind(w, own)
			out, err := st.declare(w, b.Input)
			if err != nil {
				return end{}, err
			}
			b.Events = own.Events()
			return ends(out)
		})
	}
	if err != nil {
		return err
	}
	if i := r.saved.find(b.full()); i >= 0 && r.saved.Steps[i].Result != nil { // the result of the run that was applied, which may differ from the result of the last run
		*b = r.saved.Steps[i]
	}
	return nil
}

// batch writes the statements that fn declares, in one round trip if the store supports this.
func (r *run) batch(ctx context.Context, b begun, fn func(*once.Batch) (end, error)) error {
	var w once.Batch
	var e end
	if err := r.protect(ctx, b, func() (err error) { e, err = fn(&w); return err }); err != nil {
		return err
	}
	return r.write(ctx, e, declared.Writes(&w)...)
}

func (r *run) fits(s saved, full string) error {
	if err := s.fits(); err != nil {
		return stuckf("the input or the result of step %q cannot be stored: %v", full, err)
	}
	return nil
}

// stored returns the step in its stored form. It keeps the input only if an undo may need it.
func (b begun) stored() begun {
	if !b.Undo {
		b.Input = nil
	}
	b.Call = nil
	return b
}

// bounded returns a context that limits one try of a step.
func (r *run) bounded(ctx context.Context, st *step) (context.Context, context.CancelFunc) {
	d := st.timeout
	if d == 0 {
		d = r.n.cfg.StepTimeout
	}
	return context.WithTimeout(ctx, d)
}

// key returns the key of a call at its service.
func (r *run) key(b begun) string {
	voided := 0
	if b.Call != nil {
		voided = b.Call.Voided
	}
	return lease.Key(r.id.Scope, r.id.Key, b.full(), voided)
}

// undoKey returns the key of the undo of a call. It is unique, because no step name contains a line break.
func (r *run) undoKey(b begun) string {
	return lease.Key(r.id.Scope, r.id.Key, "undo\n"+b.full(), 0)
}

// call makes a call for the first time.
func (r *run) call(ctx context.Context, st *step, b *begun) error {
	// An intent is also needed if another node may have taken the saga over before the call, and if the run depends on a
	// failure that is not stored yet: in the next run, that step could succeed.
	if st.needsIntent() || !r.holds || r.said {
		if err := r.intend(ctx, b, st.contract(time.Now())); err != nil {
			return err
		}
	}
	return r.send(ctx, st, b, false)
}

// intend stores the intent of a call, so that the next node knows of the call.
func (r *run) intend(ctx context.Context, b *begun, c *contract) error {
	b.State, b.Call = stateCalling, c
	next := r.saved.with(*b)
	if err := r.fits(next, b.full()); err != nil {
		return err
	}
	return r.write(ctx, end{saved: next, state: store.StateRunning})
}

// codeDuplicate is the code of a failure which says that the service has applied the call before, but does not have its result.
const codeDuplicate = "PROVIDER.duplicate"

// send makes a call, and keeps its answer, which the next commit stores. again says that the call may have been made before with
// this key.
func (r *run) send(ctx context.Context, st *step, b *begun, again bool) error {
	out, err := r.attempt(ctx, st, *b, again)
	if err == nil {
		return r.answered(b, out)
	}
	var notYet *againError
	switch {
	// The service has answered, so the outcome is known. NotYet allows a further attempt even if the contract does not allow
	// repetitions.
	case errors.As(err, &notYet):
		if b.Call != nil {
			r.permit(b)
		}
		return err
	case lease.IsNotSent(err) && !again:
		// NotSent only concerns this attempt: an earlier attempt with the same key may have been sent.
		r.notSent(b)
		return errors.New(err.Error()) // without the chain, because a failure in it is not an answer
	case errors.Is(err, errLate): // the caller finds out the outcome of the earlier attempt
		return err
	}
	if f := failureIn(err); f != nil && f.Code != codeDuplicate && !lease.IsNotSent(err) {
		return f
	}
	// The chain is dropped, because a Failure in it would count as an answer.
	err = errors.New(err.Error())
	if b.Call == nil || b.Call.repeats(time.Now()) || st.check != nil && b.Call.Check {
		return err // the next run repeats or checks the call
	}
	return r.unknown(st, b, err)
}

// attempt makes one attempt of a call, or returns an error if it is too late for the attempt. again says that the call may have been
// made before with this key.
func (r *run) attempt(ctx context.Context, st *step, b begun, again bool) (json.RawMessage, error) {
	ctx, cancel := r.bounded(ctx, st)
	defer cancel()
	if b.Call != nil && !b.Call.Until.IsZero() {
		// A client that repeats the request must stop before the service forgets the key: a later request would be another call.
		ctx, cancel = context.WithDeadline(ctx, b.Call.Until)
		defer cancel()
	}
	// A client of package retryhttp sends a request with this context at most once.
	if !st.repeats {
		ctx = atmostonce.Mark(ctx)
	}
	var out json.RawMessage
	err := r.traced(ctx, SpanStep, b, func(ctx context.Context) error {
		return r.protect(ctx, b, func() (err error) {
			// The process may have stood still since the intent was stored or read.
			if err := r.late(ctx, b, again); err != nil {
				return err
			}
			out, err = st.call(ctx, r.key(b), b.Input)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

var errLate = errors.New("nine tenths of DedupedFor had passed before the call was made, so the service may forget the key. Try: check that the database answers. If it does, DedupedFor is too short for its commits")

// late returns an error if it is too late for a call: the lease is lost, or the service may forget the key.
func (r *run) late(ctx context.Context, b begun, again bool) error {
	switch {
	case !r.own.Holds(ctx):
		return errLost
	case b.Call == nil || b.Call.Until.IsZero() || time.Now().Before(b.Call.Until):
		return nil
	case again: // an earlier attempt may have been sent
		return errLate
	}
	return lease.NotSent(errLate)
}

// notSent takes the intent back. If keys were voided, the intent stays, so that the next attempt has another key.
func (r *run) notSent(b *begun) {
	if b.Call == nil || b.Call.Voided == 0 {
		r.saved = r.saved.without(b.full())
		return
	}
	r.permit(b)
}

// permit allows one further attempt of a call: no earlier attempt has taken effect.
func (r *run) permit(b *begun) {
	c := *b.Call
	c.NotYet = true
	b.Call = &c
	r.saved = r.saved.with(*b)
}

// reintend stores the intent of an attempt that "not yet" has permitted, or that has a new key. The attempt may have another
// outcome than "not yet", so the permission ends here, and the service remembers the key from this attempt on.
func (r *run) reintend(ctx context.Context, st *step, b *begun) error {
	c := st.contract(time.Now())
	c.Voided = b.Call.Voided
	return r.intend(ctx, b, c)
}

// answered adds the result of a call to the state.
func (r *run) answered(b *begun, out json.RawMessage) error {
	b.State, b.Result = stateDone, out
	next := r.saved.with(b.kept())
	if err := next.fits(); err != nil {
		return stuckf("the service has answered call %q, but the answer cannot be stored: %v", b.full(), err)
	}
	r.saved = next
	return nil
}

// kept returns the part of an answered call that is stored. The contract stays if it determines the key.
func (b begun) kept() begun {
	c := b.Call
	b = b.stored()
	if c != nil && c.Voided > 0 {
		b.Call = &contract{Voided: c.Voided}
	}
	return b
}

// unknown returns the error of a call whose outcome cannot be found out.
func (r *run) unknown(st *step, b *begun, err error) error {
	// A saga cannot turn if its pivot has taken effect, or may have taken effect.
	if st.cancel != nil && b.Call.Cancel && !b.Pivot && r.saved.passedPivot() == "" {
		return &turnError{once.Failure{Code: CodeUnknown, Message: fmt.Sprintf("the outcome of call %q is unknown: %v", b.full(), err)}}
	}
	return stuckf("the outcome of call %q is unknown, and the definition of the step does not allow a second attempt: %v", b.full(), err)
}

var errNoAnswer = errors.New("the record has no answer to an earlier attempt of the call")

// resume continues a call that an earlier run has begun, on this node or another one.
func (r *run) resume(ctx context.Context, st *step, b *begun) error {
	switch {
	case st.kind != kindCall || b.Call == nil:
		return stuckf("an earlier version of the program has begun step %q as a call, but in this program the step is not a call. Try: a program in which the step is a call", b.full())
	case r.n.isStopping():
		return errStop
	}
	// A repetition could take effect twice, so the service must say the outcome.
	if !b.Call.repeats(time.Now()) {
		if st.check == nil || !b.Call.Check {
			return r.unknown(st, b, errNoAnswer)
		}
		found, err := r.ask(ctx, st, b)
		if err != nil || found {
			return err
		}
	}
	if b.State == stateCalling && !b.Call.permitsOne() {
		err := r.send(ctx, st, b, true)
		if errors.Is(err, errLate) { // the call can no longer be repeated
			return r.resume(ctx, st, b)
		}
		return err
	}
	if err := r.reintend(ctx, st, b); err != nil {
		return err
	}
	return r.send(ctx, st, b, false)
}

// ask asks the service for the outcome of a call. If the service has made sure that the call never happens, the call can be made
// under another key: then found is false, and the state of the step is empty.
func (r *run) ask(ctx context.Context, st *step, b *begun) (found bool, err error) {
	ctx, cancel := r.bounded(ctx, st)
	defer cancel()
	var out json.RawMessage
	var finding lease.Finding
	err = r.traced(ctx, SpanCheck, *b, func(ctx context.Context) error {
		return r.protect(ctx, *b, func() (err error) { out, finding, err = st.check(ctx, r.key(*b)); return err })
	})
	switch {
	// The chain is dropped, because a Failure in it is not the answer of the call.
	case err != nil:
		return false, errors.New(err.Error())
	case finding == lease.Happened:
		return true, r.answered(b, out)
	case finding == lease.Voided:
		// From now on the service refuses the old key, so a call with another key cannot take effect twice.
		c := *b.Call
		c.Voided++
		b.State, b.Call = "", &c
		return false, nil
	}
	return false, fmt.Errorf("the Check of call %q could not find out the outcome", b.full())
}
