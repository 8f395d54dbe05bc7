package saga

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/held"
	"github.com/oncelib/once/store"
)

// Wake ends the wait of a saga together with the commit of tx, in which the caller writes the data that the saga
// waits for. If a node is running the saga at the time of the commit, the next wait of the saga ends at once. On
// a store without SQL tables, Wake has an effect only on a saga that is already waiting. If the saga does not
// exist or has ended, Wake does nothing.
func (r *Runner[TX]) Wake(ctx context.Context, tx TX, id ID) error {
	rec, err := r.ops.Read(ctx, id.store())
	if err != nil || rec.State != store.StateRunning && rec.State != store.StateWaiting {
		return err //nolint:wrapcheck // the store's error is clear by itself
	}
	if r.plane != nil {
		// A row of due also ends the next wait of a saga that runs now, so the record need not be locked.
		for _, s := range r.due.wake(id.store(), rec.Name) {
			if _, err := r.plane.On(tx).Exec(ctx, s); err != nil {
				return err //nolint:wrapcheck // likewise
			}
		}
		return nil
	}
	return r.changeIn(ctx, tx, id, func(rec store.Record, s *saved) (bool, error) { return rec.State == store.StateWaiting, nil })
}

// Cancel tells a saga to undo its steps (to compensate). Cancel takes effect when tx commits. The caller that has
// started the saga gets a failure with [CodeCancelled]. After the commit of tx, a node that still runs the flow
// of the saga can commit no further step. If the pivot is running, the outcome of the pivot decides whether the
// saga is cancelled. If the saga has passed its pivot, Cancel returns [ErrPivot]. If the saga has ended, Cancel
// returns [ErrEnded]. If the outcome of a call of the saga is not known yet, the error of Cancel has the code
// [once.CodeInFlight]: call Cancel again later.
func (r *Runner[TX]) Cancel(ctx context.Context, tx TX, id ID, reason string) error {
	return r.changeIn(ctx, tx, id, func(rec store.Record, s *saved) (bool, error) { return cancel(id.store(), rec, s, reason) })
}

// cancel makes s compensate, unless s cannot compensate any more.
func cancel(id store.ID, rec store.Record, s *saved, reason string) (changes bool, err error) {
	b := s.calling()
	switch {
	case rec.State == store.StateDone:
		return false, fmt.Errorf("saga: %w", ErrEnded)
	// The saga already compensates, so a second cancel changes nothing.
	case s.Turn != nil:
		return false, nil
	case s.passedPivot() != "":
		return false, fmt.Errorf("saga: %w: %q is done", ErrPivot, s.passedPivot())
	// Without repetition, check or cancel, no other node could find out the outcome of the call.
	case rec.State == store.StateRunning && !rec.LeaseExpired && b != nil && !b.Call.Repeat && !b.Call.Check && !b.Call.Cancel:
		return false, &once.Error{
			Code: once.CodeInFlight, Effect: once.EffectNotApplied, Scope: id.Scope, Key: id.Key, After: time.Second,
			Err: fmt.Errorf("call %q is in flight, and only the process that makes the call can find out its outcome. Try: cancel the saga again later", b.full()),
		}
	}
	// The caller wants a new beginning: earlier tries do not count for the undo.
	s.Turn, s.Tries, s.Stuck = &turn{once.Failure{Code: CodeCancelled, Message: reason}}, 0, ""
	return true, nil
}

// changeIn makes the change of the function how in tx. After the commit the saga waits and is due.
func (r *Runner[TX]) changeIn(ctx context.Context, tx TX, id ID, how func(rec store.Record, s *saved) (bool, error)) error {
	rec, err := r.ops.Read(ctx, id.store())
	if err != nil {
		return err //nolint:wrapcheck // it is of the store
	}
	for range maxRuns {
		var c store.Change
		if rec.State == store.StateAbsent { // tx itself may have started the saga: no record has the fence -1, so Write changes nothing and returns the record as tx sees it
			c = store.Change{ID: id.store(), KeepRequest: true, Expect: store.Expect{Fence: -1}, Next: store.Record{State: store.StateWaiting, Nonce: held.NewNonce()}}
		} else {
			var changes bool
			if c, changes, err = dueChange(r.due, id.store(), rec, how); err != nil || !changes {
				return err
			}
		}
		now, err := r.writer.Write(ctx, tx, c)
		if err == nil || store.KindOf(err) != store.KindTaken {
			return err //nolint:wrapcheck // likewise
		}
		// The record has changed since it was read, so the change is computed again.
		if rec = now; rec.State == store.StateAbsent {
			return fmt.Errorf("saga: %w", ErrNothing)
		}
	}
	return &once.Error{Code: once.CodeConflict, Effect: once.EffectNotApplied, Scope: id.store().Scope, Key: id.Key, Err: errOvertaken}
}

var errOvertaken = errors.New("another process has changed the saga at the same time. Try: send the same decision again")
