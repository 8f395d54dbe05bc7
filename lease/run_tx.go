package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncelib/once/internal/base/ability"
	"github.com/oncelib/once/store"
)

// runTx is the engine's view of a run: the engine can end the run, the handler cannot.
type runTx struct{ run *Run }

var (
	_ store.Transaction[*Run] = runTx{}
	_ ability.Expiring        = runTx{}
	_ ability.Witness         = runTx{}
)

// Tx implements [store.Transaction].
func (c runTx) Tx() *Run { return c.run }

// Ended implements [ability.Expiring].
func (c runTx) Ended() <-chan struct{} { return c.run.own.Ended() }

// OnEnd implements [ability.Expiring].
func (c runTx) OnEnd(f func()) (stop func() bool) { return c.run.own.OnEnd(f) }

// Found implements [ability.Witness].
func (c runTx) Found() string { return c.run.found.String() }

// Left implements [ability.Witness].
func (c runTx) Left() string { return c.run.left }

// stands reports whether a later run would find something that this run has saved: a phase, a call or a voided
// key.
func (r *Run) stands() bool { return len(r.saved.Phases) > 0 || len(r.saved.Keys) > 0 || r.lost != nil }

// standing returns an error whose kind says which committed work remains if the run ends now: KindUncertain, KindPartial, or
// nil if nothing remains.
func (r *Run) standing(cause error) error {
	switch {
	case r.saved.Call != nil && !r.saved.Call.repeats(time.Now()):
		if r.saved.Call.checks(time.Now()) { // another owner may have the operation now; it asks the service as well
			cause = errors.Join(cause, ability.ErrCheckable)
		}
		return &store.Error{Kind: store.KindUncertain, Err: cause}
	case r.saved.Call != nil, r.stands():
		return &store.Error{Kind: store.KindPartial, Err: cause}
	}
	return nil
}

var (
	errCallPending = fmt.Errorf("the handler has returned a result, although it has begun a call or a phase that did not end: %w", ErrUnknown)
	errLeftOpen    = fmt.Errorf("%w: the handler has returned while one of its phases was still running. Try: wait for the end of every phase before the handler returns", ErrMisused)
	errStopped     = errors.New("the handler has ended before the work was done. Its finished phases are committed. Try: call again with the same key")
	errAsked       = errors.New("the handler has ended, and its call to another service may have taken effect. A retry of the operation asks that service for the outcome")
	errUncertain   = errors.New("the handler has ended, and its call to another service may have taken effect. The operation does not run again until an operator decides. Try: ask that service whether it has executed the call, and then run the command once keys resolve, or call lease.Resolve")
	errCommitted   = errors.New("the handler has ended, and a phase may have committed its transaction itself. The operation does not run again until an operator decides. Try: look for the writes of the phase in the tables, and then run the command once keys resolve, or call lease.Resolve. Remove COMMIT from the procedures and the dynamic SQL of the phase")
)

// Commit implements [store.Transaction]: it commits the result together with the answer of the last call.
func (c runTx) Commit(ctx context.Context, end store.Change) error {
	r := c.run
	lost, taken := r.own.Close()
	if !r.phase.TryLock() {
		return &store.Error{Kind: store.KindUncertain, Err: errLeftOpen}
	}
	defer r.phase.Unlock()
	switch {
	case taken:
		return r.lostTo(fmt.Errorf("the result is not stored: %w", ErrLost))
	case r.lost != nil:
		return r.standing(r.lost)
	case r.saved.Call != nil:
		// A result would hide the call: no later run would ask for its outcome.
		return r.park(ctx, errCallPending)
	// The lease is over, but no other owner has taken the operation. The work that was done is saved for the next owner.
	case lost:
		return errors.Join(r.park(ctx, ErrLost), &store.Error{Kind: store.KindUnavailable, Err: ErrLost})
	}
	r.tellUnreached(ctx, "")
	end.ID, end.Next.Nonce, end.Next.Data = r.id, r.own.Nonce, r.saved.ended().encode()
	err := r.swap(ctx, end)
	switch {
	case err == nil:
		return nil
	case store.KindOf(err) == store.KindTaken:
		return r.lostTo(err)
	case store.KindOf(err) == store.KindLost:
		return err
	}
	if s := r.standing(err); s != nil {
		return r.park(ctx, err)
	}
	return err
}

// lostTo returns the error for a run whose operation another owner has taken over.
func (r *Run) lostTo(err error) error {
	if s := r.standing(err); s != nil {
		return s
	}
	return &store.Error{Kind: store.KindTaken, Err: err}
}

// Rollback implements [store.Transaction]. The committed phases remain: the operation can be taken over at once.
// If a call was begun that cannot be made again, its outcome is unknown.
func (c runTx) Rollback(ctx context.Context) error {
	r := c.run
	_, taken := r.own.Close()
	if !r.phase.TryLock() { // a phase still runs: the lease ends by itself, and the record at that time decides
		return &store.Error{Kind: store.KindUncertain, Err: errLeftOpen}
	}
	defer r.phase.Unlock()
	switch {
	case taken:
		return r.lostTo(ErrLost)
	case r.lost != nil:
		return r.standing(r.lost)
	}
	cause := errStopped
	switch {
	case store.KindOf(r.standing(nil)) != store.KindUncertain:
	case r.saved.Call.Tx:
		cause = errCommitted
	case r.saved.Call.checks(time.Now()):
		cause = errAsked
	default:
		cause = errUncertain
	}
	return r.park(ctx, cause)
}

// park releases the operation, so that it waits for its next owner. If the write fails, the lease ends by itself.
func (r *Run) park(ctx context.Context, cause error) error {
	standing := r.standing(cause)
	// The run has written nothing, so there is nothing to release.
	if r.own.Fence() == 0 && r.saved.Call == nil {
		if rec, err := r.s.ops.Read(ctx, r.id); standing == nil && err == nil && rec.State != store.StateAbsent {
			return &store.Error{Kind: store.KindTaken, Err: cause} // the handler may have failed because of what an earlier run of it has done
		}
		return standing
	}
	next := r.running(r.saved)
	next.Next.State, next.Lease = store.StateWaiting, 0
	switch store.KindOf(standing) {
	case store.KindUncertain:
		// Only a person or a Check may continue the operation, because the next owner would make the call again.
		next.Next.State = store.StateUnknown
	case store.KindPartial:
	default:
		next = store.Change{ID: r.id}
	}
	switch err := r.swap(ctx, next); {
	case err == nil:
		r.left = next.Next.State.String()
	case standing == nil:
		return &store.Error{Kind: store.KindPartial, Err: errors.Join(cause, err)} // for the next caller, another owner has begun this work
	}
	return standing
}
