package lease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/toolarge"
	"github.com/oncelib/once/internal/engine/current"
	"github.com/oncelib/once/internal/held"
	"github.com/oncelib/once/internal/sql/kind"
	"github.com/oncelib/once/store"
)

// maxRuns is how often a phase runs when the database answers with serialization failures or deadlocks.
const maxRuns = 3

// InTx runs a phase in one transaction of s, which must be the store that keeps the leases. The writes of fn,
// the value that fn returns and the note that the phase is done are committed together. If the phase was
// committed before, fn does not run, and InTx returns the saved value, decoded from JSON.
//
// The function fn may run several times, but only one of these runs commits. If fn returns an error, the
// phase is rolled back, the earlier phases stay committed, and InTx returns the error. The operation's
// Isolation and Timeouts apply to the transaction of each phase. The default isolation level is
// [store.ReadCommitted].
func InTx[T, TX any](ctx context.Context, r *Run, s store.Store[TX], phase string, fn func(ctx context.Context, tx TX) (T, error)) (value T, err error) {
	leave, err := r.enter(phase)
	if err != nil {
		return value, err
	}
	defer leave()
	if p, ok := r.saved.find(phase); ok {
		return earlier[T](r, p)
	}
	if err := r.mayWrite(phase); err != nil {
		return value, err
	}
	if !isSame(s, r.s.ops) {
		return value, fmt.Errorf("%w: phase %q writes to a store that does not contain the lease, so both cannot commit in one transaction. Try: lease.Call for this phase, or a write to the store that was passed to lease.New", ErrMisused, phase)
	}
	t := transaction[T, TX]{run: r, store: s, phase: phase, fn: fn}
	if err := r.trace(ctx, Phase{Name: phase}, t.untilCommitted); err != nil {
		return value, err
	}
	if t.found { // an earlier run has committed the phase, and its answer was lost
		p, _ := r.saved.find(phase)
		return decode[T](r, p)
	}
	return t.value, nil
}

// transaction is a phase of database work.
type transaction[T, TX any] struct {
	run   *Run
	store store.Store[TX]
	phase string
	fn    func(ctx context.Context, tx TX) (T, error)

	value   T     // of the last run of fn
	lost    error // set if a COMMIT has no answer, or the ROLLBACK of a transaction that fn may have committed itself
	found   bool  // that COMMIT was applied
	written bool  // the store may have written the change of ifEnded, in case fn ends its transaction
}

// untilCommitted runs the phase until it is committed or has failed. After a lost answer the whole phase runs again
// under the same fence, so that at most one run is applied.
func (t *transaction[T, TX]) untilCommitted(ctx context.Context) error { //nolint:gocognit // one loop over the outcomes of a commit
	for runs := 1; ; runs++ {
		err, ofCommit := t.once(ctx, runs == 1)
		if err == nil {
			t.run.lost = nil // no other write with this fence can be applied any more
			return nil
		}
		kind := kind.In(t.store, err)
		if kind == store.KindEnded {
			t.end()
		}
		if t.isEnded() {
			return t.unknown(err)
		}
		ofCommit = ofCommit || kind == store.KindTaken && t.written // the refused write was the change of ifEnded, which the store writes before a procedure
		if ofCommit && (kind == store.KindTaken || kind == store.KindLost) || t.lost != nil {
			if kind == store.KindLost {
				t.lost, t.run.lost = err, err // set now, because fn may panic in its next run, or another owner may take over the operation
			}
			switch applied, e := t.isApplied(ctx); {
			case applied:
				t.run.lost = nil
				return nil
			case t.isEnded():
				return t.unknown(err)
			case e != nil && t.lost != nil:
				return errors.Join(t.lost, e)
			case kind == store.KindTaken && ofCommit: // another owner has raised the fence
				t.run.own.Lose(true)
				return fmt.Errorf("phase %q is not committed: %w: %w", t.phase, ErrLost, err)
			}
		}
		again := kind == store.KindRetry || ofCommit && kind == store.KindLost
		if !again || runs >= maxRuns || !held.Pause(ctx, rand.N(held.FirstDelay)) {
			if t.lost != nil && !errors.Is(err, t.lost) { // the lost commit may still be applied
				err = errors.Join(err, t.lost)
			}
			return err
		}
	}
}

// once runs fn in a transaction and commits. ofCommit says that the error is the commit's, not the handler's. Only the first BEGIN
// is sent together with a statement: later ones replace broken connections.
func (t *transaction[T, TX]) once(ctx context.Context, first bool) (err error, ofCommit bool) {
	r := t.run
	opts := store.BeginOptions{Isolation: r.opts.Isolation, Timeouts: r.opts.Timeouts, IfEnded: t.ifEnded, First: first}
	if opts.Isolation == store.DefaultIsolation {
		opts.Isolation = store.ReadCommitted // renewals change the record meanwhile, which a higher level would report as a conflict
	}
	txn, _, err := t.store.Begin(ctx, opts)
	if err != nil {
		return err, false
	}
	// ifEnded may have locked the lease, because this transaction has then written the record.
	defer r.own.Lock(false)
	next, err := t.runIn(ctx, txn)
	if err != nil {
		return err, false
	}
	// The caller must not cancel a COMMIT: its outcome would be unknown.
	uncancelled, cancel := context.WithTimeout(context.WithoutCancel(ctx), held.SettleTime)
	defer cancel()
	c := r.own.Under(r.running(next))
	defer r.own.Writing(time.Now())()
	if err := txn.Commit(uncancelled, c); err != nil {
		return err, true
	}
	r.saved = next
	r.own.Adopt(c.Next)
	return nil, true
}

// runIn runs fn. It rolls back if fn panics, or returns no value that can be saved.
func (t *transaction[T, TX]) runIn(ctx context.Context, txn store.Transaction[TX]) (next saved, err error) {
	returned := false
	defer func() {
		if returned && err == nil {
			return
		}
		uncancelled, cancel := context.WithTimeout(context.WithoutCancel(ctx), held.SettleTime)
		defer cancel()
		undo := txn.Rollback(uncancelled)
		switch kind := store.KindOf(undo); {
		case undo == nil:
		case kind == store.KindEnded: // fn has committed its writes itself, without its phase
			t.end()
			err = errors.Join(undo, err)
		case kind == store.KindLost: // fn may have committed its writes itself
			t.lost, t.run.lost = undo, undo
			if !returned { // fn has panicked, so untilCommitted does not ask for the outcome
				_, _ = t.isApplied(ctx)
			}
			err = errors.Join(undo, err)
		case kind == store.KindRetry:
			err = errors.Join(undo, err)
		}
	}()
	own := &current.Operation{ID: t.run.id}
	t.value, err = t.fn(current.With(ctx, own), txn.Tx())
	if err == nil {
		if next, err = t.run.done(t.phase, t.value); err == nil {
			next.Phases[len(next.Phases)-1].Events = own.Events()
		}
	}
	returned = true
	return next, err
}

// ifEnded returns the change that is stored if fn ends its transaction in a way that the store cannot see. It says that the
// outcome of the phase is unknown. Until the transaction is over, it keeps renewals and takeovers from writing the
// record.
func (t *transaction[T, TX]) ifEnded() store.Change {
	r := t.run
	r.own.Lock(true)
	t.written = true
	return r.own.Under(store.Change{ID: r.id, Next: r.record(store.StateUnknown, t.ended())})
}

// ended returns the saved state if fn has ended its transaction. Only a person can find out which writes are committed.
func (t *transaction[T, TX]) ended() saved {
	return t.run.saved.begun(intent{Phase: t.phase, Tx: true, ID: t.run.callID(t.phase)})
}

// end notes that fn has ended its transaction. The run stores this when it ends.
func (t *transaction[T, TX]) end() { t.run.saved, t.run.lost = t.ended(), nil }

// isEnded reports whether fn has ended its transaction.
func (t *transaction[T, TX]) isEnded() bool {
	c := t.run.saved.Call
	return c != nil && c.Tx && !c.Repeat
}

// unknown returns the error of a phase if fn has ended its transaction.
func (t *transaction[T, TX]) unknown(err error) error {
	return fmt.Errorf("the writes of phase %q may be committed: the phase has ended its transaction itself (in a procedure or dynamic SQL), or has written to tables that cannot be rolled back: %w: %w", t.phase, ErrUnknown, err)
}

// isApplied finds out whether a commit without an answer was applied, or whether fn had ended the transaction before.
func (t *transaction[T, TX]) isApplied(ctx context.Context) (bool, error) {
	r := t.run
	rec, applied, err := r.own.IsApplied(ctx)
	switch {
	case err != nil || !applied:
		return false, err //nolint:wrapcheck // it is of the store
	case rec.State == store.StateUnknown:
		// The change of ifEnded was applied, so fn has ended the transaction itself.
		t.end()
		return false, nil
	case rec.State != store.StateRunning:
		return false, nil
	}
	s, err := decodeSaved(rec.Data)
	if err != nil {
		return false, err
	}
	r.saved, t.found = s, true
	r.own.Adopt(rec)
	return true, nil
}

// done returns the saved state after a phase has ended with a value.
func (r *Run) done(name string, value any) (saved, error) {
	b, err := json.Marshal(value)
	if err != nil {
		return saved{}, fmt.Errorf("the value of phase %q cannot be saved: %w", name, err)
	}
	return r.with(phase{Name: name, Value: b})
}

// with returns the saved state after a phase has ended.
func (r *Run) with(p phase) (saved, error) {
	p, err := r.seal(p)
	if err != nil {
		return saved{}, err
	}
	return r.fits(r.saved.with(p))
}

// failed returns the saved state after a call was answered with a failure.
func (r *Run) failed(name string, failure once.Failure) (saved, error) {
	if _, err := json.Marshal(failure); err != nil {
		return saved{}, fmt.Errorf("the failure of call %q cannot be saved: %w", name, err)
	}
	return r.with(phase{Name: name, Failure: &failure})
}

// fits returns an error if the state is too large to be saved.
func (r *Run) fits(s saved) (saved, error) {
	if n := s.size(); n > r.s.cfg.MaxSaved {
		return s, &toolarge.Error{Bytes: int64(n), Max: int64(r.s.cfg.MaxSaved), Try: "smaller values of phases, such as the keys of rows; or a larger lease.Config.MaxSaved"}
	}
	return s, nil
}
