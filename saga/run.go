package saga

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/held"
	"github.com/oncelib/once/store"
)

// run is one run of a saga on this node, which owns the saga's record.
type run struct {
	n   *node
	def *definition
	id  store.ID
	own *held.Owner

	saved  saved // the stored state, with the changes that the next commit stores
	turned bool  // the decision to undo the steps is stored already
	holds  bool  // the record says that this owner works on the saga
	waits  bool  // the record may say that the saga waits, so a row of due exists
	said   bool  // saved contains a failure of a step that is not stored yet
	lost   error // a write without an answer may still be applied, so nothing more is written

	background bool // no caller waits for this run

	final  *store.Record // the last record, if this run has ended the saga
	became string        // the state after the last write, as StateOf returns it

	flow    sync.Mutex // locked while a step runs
	reached map[string]bool
	halt    error // why the flow can run no further step in this run
}

// end is the state of the saga after a write.
type end struct {
	saved
	state  store.State
	after  time.Duration // how long a waiting saga waits
	result store.Result  // the result of a finished saga
}

// execute runs the saga until it ends, waits or is stuck. After an error the saga is in none of these states, because this node
// has lost it or cannot write. Then the saga continues after the end of its lease.
func (r *run) execute(ctx context.Context) error {
	defer r.own.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer r.own.OnEnd(cancel)()
	return r.tracedRun(ctx, r.toItsEnd)
}

// toItsEnd runs the saga forward or backward, until it stops.
func (r *run) toItsEnd(ctx context.Context) error {
	for {
		err := r.forward
		if r.saved.Turn != nil {
			err = r.compensate
		}
		switch err := err(ctx); {
		case errors.Is(err, errDirection):
		default:
			return err
		}
	}
}

// errDirection says that the saga continues in the other direction.
var errDirection = errors.New("the saga undoes its steps")

// forward runs the flow.
func (r *run) forward(ctx context.Context) error {
	r.reached, r.halt = map[string]bool{}, nil
	if r.isLate() {
		return r.decide(ctx, lateError(r.def.deadline))
	}
	var out json.RawMessage
	err := r.protect(ctx, begun{Name: theFlow}, func() (err error) {
		out, err = r.def.flow(Context{ctx, r}, r.saved.Input)
		return err
	})
	// A step that is still running could commit, while this goroutine decides about the same state.
	if !r.flow.TryLock() {
		return r.stick(ctx, "the flow has returned while one of its steps was still running")
	}
	defer r.flow.Unlock()
	switch unreached := r.unreached(); {
	case r.final != nil: // the last step has ended the saga
		return nil
	case r.halt != nil:
		err = r.halt
	// A panic is no choice of another path: the flow is tried again, and may reach the step then.
	case unreached != "" && !errors.As(err, new(*panicError)):
		err = stuckf("the flow has returned without step %q, which an earlier run of the flow has begun. Try: deploy the earlier program again, and use another name for the changed saga", unreached)
	case err == nil:
		return r.write(ctx, end{saved: r.saved, state: store.StateDone, result: store.Result{Body: out}})
	}
	return r.decide(ctx, err)
}

// unreached returns the first step that an earlier run has begun, and that this run has not reached.
func (r *run) unreached() string {
	for _, b := range r.saved.Steps {
		if !r.reached[b.full()] {
			return b.full()
		}
	}
	return ""
}

// stop prevents further steps of the flow.
func (r *run) stop(err error) error {
	r.halt = cmp.Or(r.halt, err)
	return r.halt
}

// failedError is the error of a failed try of a step, which is tried again.
type failedError struct {
	step begun
	most int // the largest number of tries of the step
	err  error
}

func (e *failedError) Error() string { return fmt.Sprintf("step %q: %v", e.step.full(), e.err) }
func (e *failedError) Unwrap() error { return e.err }

// theFlow is the step name in errors and events if the flow itself has failed.
const theFlow = "the flow"

// turnError makes the saga compensate for another reason than a failure of a step.
type turnError struct{ cause once.Failure }

func (e *turnError) Error() string { return e.cause.Error() }

func lateError(deadline time.Duration) error {
	return &turnError{once.Failure{Code: CodeDeadline, Message: fmt.Sprintf("the saga has not ended before its deadline, which is %v after its start", deadline)}}
}

// isLate reports whether the saga must compensate because of its deadline.
func (r *run) isLate() bool {
	// A call in flight is resolved first, because its outcome decides which effects exist.
	return !r.saved.Deadline.IsZero() && !time.Now().Before(r.saved.Deadline) && r.saved.passedPivot() == "" && r.saved.calling() == nil
}

// decide decides how the saga continues after the flow has returned err.
func (r *run) decide(ctx context.Context, err error) error {
	var again *againError
	var stuck *stuckError
	var turning *turnError
	var failed *failedError
	switch {
	case r.lost != nil:
		return r.lost
	case r.own.HasEnded(), errors.Is(err, errLost):
		return errLost
	case errors.Is(err, errExists):
		return err
	case errors.Is(err, errStop):
		// The node stops, so the saga is due at once for other nodes.
		return r.park(ctx, 0)
	case errors.As(err, &stuck):
		return r.stick(ctx, stuck.why)
	case errors.As(err, &turning):
		return r.turn(ctx, turning.cause)
	case errors.As(err, &again):
		return r.park(ctx, again.after)
	case errors.As(err, &failed):
		return r.again(ctx, failed)
	}
	if f := failureIn(err); f != nil {
		return r.turn(ctx, *f)
	}
	return r.again(ctx, &failedError{begun{Name: theFlow}, r.n.cfg.Attempts, err})
}

// turn decides to undo the steps. The decision is stored before the first undo, or together with it.
func (r *run) turn(ctx context.Context, cause once.Failure) error {
	if pivot := r.saved.passedPivot(); pivot != "" {
		return r.stick(ctx, fmt.Sprintf("the saga has passed its pivot %q, so it cannot be undone any more: %s", pivot, cause.Error()))
	}
	// The failure is the outcome of the whole saga, whose writes are undone.
	cause.CommitWrites = false
	r.saved.Turn, r.saved.Tries, r.turned = &turn{cause}, 0, false
	return errDirection
}

// again makes the saga try the failed step later. If all tries are used, the saga begins to undo its steps.
func (r *run) again(ctx context.Context, failed *failedError) error {
	if r.saved.Tries++; r.saved.Tries >= failed.most {
		return r.turn(ctx, once.Failure{Code: CodeExhausted, Message: fmt.Sprintf("%s has failed %d times, and the last error is: %v", failed.step.full(), r.saved.Tries, failed.err)})
	}
	r.tell(ctx, Event{Type: EventRetried, Step: failed.step.Name, StepKey: failed.step.Key, Tries: r.saved.Tries, Err: failed.err})
	return r.park(ctx, r.n.backoff(r.saved.Tries))
}

// park makes the saga wait. A waiting saga holds no lease.
func (r *run) park(ctx context.Context, after time.Duration) error {
	// At the deadline the saga must begin to undo its steps, so it must run again by then.
	if d := r.saved.Deadline; !d.IsZero() && r.saved.Turn == nil && r.saved.passedPivot() == "" {
		after = max(0, min(after, time.Until(d)))
	}
	return r.write(ctx, end{saved: r.saved, state: store.StateWaiting, after: after})
}

// stick stores that a person must decide about the saga.
func (r *run) stick(ctx context.Context, why string) error {
	s := r.saved
	s.Stuck = why
	err := r.write(ctx, end{saved: s, state: store.StateUnknown})
	if err == nil {
		r.tell(ctx, Event{Type: EventStuck, Err: errors.New(why)})
	}
	return err
}

// tell sends an event of this saga to the observer.
func (r *run) tell(ctx context.Context, e Event) {
	e.Saga, e.ID = r.def.name, idOf(r.id)
	r.n.tell(ctx, e)
}

// change returns the write of the owner that brings the saga into the state e. If it returns an error, c lacks the parts that
// cannot be encrypted.
func (r *run) change(e end) (c store.Change, err error) {
	s := e.saved
	s.Definition, s.Due = r.def.print, time.Time{}
	c = store.Change{ID: r.id, Next: store.Record{State: e.state, Nonce: r.own.Nonce, RecoveryPoint: s.point(e.state == store.StateDone), CallStarted: s.calling() != nil}}
	switch e.state { //nolint:exhaustive // no other is written // no other state is written
	case store.StateRunning:
		c.Lease = r.n.cfg.TTL
	case store.StateWaiting:
		s.Due = time.Now().Add(e.after).UTC()
	// The data of the user is deleted at the end, because no undo needs it any more.
	case store.StateDone:
		if !r.n.cfg.KeepData {
			s = s.ended()
		}
		c.Retain = r.n.cfg.Retain
		c.Next.Result, err = sealResult(r.n.cfg.Encrypter, r.id, e.result)
	}
	s, bad := s.seal(r.n.cfg.Encrypter, r.id)
	c.Next.Data = s.encode()
	switch {
	case e.state == store.StateWaiting:
		c.Writes = r.n.due.wait(r.id, r.def.name, e.after)
	case r.waits:
		c.Writes = r.n.due.drop(r.id)
	}
	return r.own.Under(c), errors.Join(err, bad)
}

// write brings the saga into the state e, in a separate transaction.
func (r *run) write(ctx context.Context, e end, writes ...store.Statement) error {
	if r.lost != nil {
		return r.lost
	}
	c, err := r.change(e)
	if err != nil {
		return err
	}
	c.Writes = append(c.Writes, writes...)
	// Before the first write nothing of this saga is stored. Then a taken record belongs to another start of the same ID.
	started := r.own.Fence() > 0
	// The caller must not cancel a write that the store may have received already.
	err = r.own.Swap(context.WithoutCancel(ctx), c)
	switch kind := store.KindOf(err); {
	case err == nil:
		r.wrote(ctx, e, c.Next)
		return nil
	case kind == store.KindTaken && started:
		r.own.Lose(true)
		return errLost
	case kind == store.KindTaken:
		return errExists
	// A second write under the same fence could not be distinguished from the first one, so nothing more is written.
	case kind == store.KindLost:
		r.lost = err
	}
	return err //nolint:wrapcheck // it is of the store
}

// wrote updates the run after a successful write.
func (r *run) wrote(ctx context.Context, e end, next store.Record) {
	if e.Turn != nil && !r.turned {
		cause := e.Turn.Cause
		r.tell(ctx, Event{Type: EventTurned, Err: &cause})
	}
	r.saved, r.turned, r.said = e.saved, e.Turn != nil, false
	r.holds, r.waits = e.state == store.StateRunning, e.state == store.StateWaiting
	r.became = StateOf(e.state, next.Result.Kind)
	if e.state != store.StateDone {
		return
	}
	if e.result.Body != nil { // this result is not encrypted, in contrast to the stored one: see openResult
		next.Result, next.Data = e.result, nil
	}
	r.final = &next
	how := EventCompleted
	if next.Result.Kind == store.ResultFailure {
		how = EventCompensated
	}
	r.tell(ctx, Event{Type: how})
}

// commit runs fn in a transaction of the store, and commits the state that fn returns together with its writes.
func (r *run) commit(ctx context.Context, full string, fn func(ctx context.Context, tx any) (end, error)) error {
	if r.lost != nil {
		return r.lost
	}
	return r.n.transact(ctx, r, full, fn)
}
