package saga

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/oncelib/once/internal/held"
	kinds "github.com/oncelib/once/internal/sql/kind"
	"github.com/oncelib/once/store"
)

// maxRuns is how often a transaction runs if the database reports serialization failures or deadlocks, or does not answer.
const maxRuns = 3

// transaction is the transaction of a step, which commits together with the record of the saga.
type transaction[TX any] struct {
	*run

	store store.Store[TX]
	full  string // the full name of the step
	fn    func(ctx context.Context, tx any) (end, error)
	told  bool // the store has the change that it writes if fn ends the transaction itself
}

// untilCommitted runs the transaction until it has committed or failed. After a lost answer the whole transaction runs again under
// the same fence, so that at most one run is applied.
func (t *transaction[TX]) untilCommitted(ctx context.Context) error {
	var lost error
	started := t.own.Fence() > 0
	for runs := 1; ; runs++ {
		err, ofCommit := t.once(ctx, runs == 1)
		if err == nil {
			t.lost = nil // no other attempt with this fence can be applied any more
			return nil
		}
		kind := kinds.In(t.store, err)
		if kind == store.KindEnded {
			return t.ended()
		}
		ofCommit = ofCommit || kind == store.KindTaken && t.told // the store has refused the change that it writes before a procedure
		if kind == store.KindLost {
			lost, t.lost = err, err
		}
		if ofCommit && kind == store.KindTaken || lost != nil {
			rec, applied, e := t.own.IsApplied(ctx)
			switch {
			case e != nil && lost != nil:
				return errors.Join(lost, e)
			case e != nil:
				return errors.Join(err, e)
			case applied:
				t.lost = nil
				return t.adopt(ctx, rec)
			case kind == store.KindTaken && !started:
				t.lost = nil // a write that is still in flight will find the record of the other start, and is refused
				return errExists
			case kind == store.KindTaken:
				t.lost = nil
				t.own.Lose(true)
				return errLost
			}
		}
		again := kind == store.KindRetry || ofCommit && kind == store.KindLost
		if !again || runs >= maxRuns || !held.Pause(ctx, rand.N(held.FirstDelay)) {
			return err
		}
	}
}

// once runs fn in a transaction, and commits. ofCommit says that the error does not come from fn.
func (t *transaction[TX]) once(ctx context.Context, first bool) (err error, ofCommit bool) {
	claim, _, err := t.store.Begin(ctx, store.BeginOptions{Isolation: store.ReadCommitted, Timeouts: t.n.cfg.Timeouts, IfEnded: t.ifEnded, First: first})
	if err != nil {
		return err, false
	}
	// Until the transaction ends, it may have locked the record: then the heart must not wait for it.
	defer t.own.Lock(false)
	e, err := t.fn(ctx, claim.Tx())
	var c store.Change
	if err == nil {
		c, err = t.change(e)
	}
	// The rollback and the commit must be sent even if the caller has ended, but must not wait for ever.
	uncancelled, cancel := context.WithTimeout(context.WithoutCancel(ctx), held.SettleTime)
	defer cancel()
	if err != nil {
		if undo := claim.Rollback(uncancelled); undo != nil {
			switch store.KindOf(undo) { //nolint:exhaustive // other errors say that it was rolled back // after any other error, the transaction was rolled back
			case store.KindEnded, store.KindLost, store.KindRetry:
				return errors.Join(undo, err), false
			}
		}
		return err, false
	}
	defer t.own.Writing(time.Now())()
	if err := claim.Commit(uncancelled, c); err != nil {
		return err, true
	}
	t.own.Adopt(c.Next)
	t.wrote(ctx, e, c.Next)
	return nil, true
}

// adopt continues from a record that this owner has written, although the answer was lost.
func (t *transaction[TX]) adopt(ctx context.Context, rec store.Record) error {
	if rec.State == store.StateUnknown {
		t.own.Adopt(rec)
		return t.ended()
	}
	s, err := t.n.read(t.id, rec)
	if err != nil {
		return err
	}
	t.own.Adopt(rec)
	t.wrote(ctx, end{saved: s, state: rec.State}, rec)
	return nil
}

// ended returns the error of a step that has ended its transaction itself. Its writes may be committed without the record of the
// step.
func (t *transaction[TX]) ended() error {
	return stuckf("the writes of step %q may be committed: the step has ended its transaction itself, or has written to tables that cannot be rolled back", t.full)
}

// ifEnded returns the change that is stored if fn ends its transaction where the store cannot see it.
func (t *transaction[TX]) ifEnded() store.Change {
	t.own.Lock(true)
	t.told = true
	s := t.saved
	s.Stuck = t.ended().Error()
	c, _ := t.change(end{saved: s, state: store.StateUnknown}) // the stuck state is stored even if the rest cannot be encrypted
	return c
}
