package saga

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/base/sleep"
	"github.com/oncelib/once/internal/held"
	"github.com/oncelib/once/internal/sql/audit"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// Status is how far a saga has come, for people.
type Status struct {
	ID         ID           `json:"id"`
	Definition string       `json:"definition"`
	State      string       `json:"state"`            // running, waiting, stuck, completed or compensated
	Turned     string       `json:"turned,omitempty"` // the code of the failure that has turned it
	Stuck      string       `json:"stuck,omitempty"`  // why a person must decide
	Due        time.Time    `json:"due,omitzero"`     // when it goes on, if it waits; by the clock of the node that has written it
	Since      time.Time    `json:"since,omitzero"`
	Steps      []StepStatus `json:"steps,omitempty"` // in the order in which they have begun
}

// StepStatus is a step that has begun.
type StepStatus struct {
	Step    string `json:"step"`
	State   string `json:"state"`             // calling, done, failed, undone, kept or skipped
	Failure string `json:"failure,omitempty"` // the code of its "no"
	Key     string `json:"key,omitempty"`     // of a call that is under way, at its service
}

// Status returns how far a saga has come. The error is [ErrNothing] if there is none.
func (r *Runner[TX]) Status(ctx context.Context, id ID) (s Status, err error) {
	rec, err := r.ops.Read(ctx, id.store())
	if err != nil {
		return s, err //nolint:wrapcheck // it is of the store
	}
	if rec.State == store.StateAbsent {
		return s, fmt.Errorf("saga: %w", ErrNothing)
	}
	data, err := decodeSaved(rec)
	if err != nil {
		return s, err
	}
	s = Status{ID: id, Definition: rec.Name, State: rec.State.String(), Stuck: data.Stuck, Due: data.Due, Since: rec.Since}
	if data.Turn != nil {
		s.Turned = data.Turn.Cause.Code
	}
	switch {
	case rec.State == store.StateUnknown:
		s.State = "stuck"
	case rec.State == store.StateDone && rec.Result.Kind == store.ResultFailure:
		s.State = "compensated"
	case rec.State == store.StateDone:
		s.State = "completed"
	}
	at := &run{id: id.store()}
	for _, b := range data.Steps {
		st := StepStatus{Step: b.full(), State: string(b.State)}
		if b.Failure != nil {
			st.Failure = b.Failure.Code
		}
		if b.State == stateCalling {
			st.Key = at.key(b)
		}
		s.Steps = append(s.Steps, st)
	}
	return s, nil
}

// Wake ends the wait of a saga with the commit of tx, in which the caller writes what the saga waits for. If a node works on the saga now,
// its next wait ends at once. On a store without tables only a saga that waits is woken. Wake does nothing to a saga that is not there, or
// has ended.
func (r *Runner[TX]) Wake(ctx context.Context, tx TX, id ID) error {
	rec, err := r.ops.Read(ctx, id.store())
	if err != nil || rec.State != store.StateRunning && rec.State != store.StateWaiting {
		return err //nolint:wrapcheck // it is of the store
	}
	if r.plane != nil {
		for _, s := range r.due.wake(id.store(), rec.Name) {
			if _, err := r.plane.On(tx).Exec(ctx, s); err != nil {
				return err //nolint:wrapcheck // likewise
			}
		}
		return nil
	}
	return r.changeIn(ctx, tx, id, func(rec store.Record, s *saved) (bool, error) { return rec.State == store.StateWaiting, nil })
}

// Cancel turns a saga with the commit of tx: it is undone, and its starter is told a failure with [CodeCancelled]. A node that works on it
// can commit nothing more. A cancel while the pivot is under way is decided by what becomes of the pivot. The error is [ErrPivot] behind the
// pivot, [ErrEnded] at the end, and of [once.CodeInFlight] while a call is under way about which nothing was said: then try again.
func (r *Runner[TX]) Cancel(ctx context.Context, tx TX, id ID, reason string) error {
	return r.changeIn(ctx, tx, id, func(rec store.Record, s *saved) (bool, error) {
		b := s.calling()
		switch {
		case rec.State == store.StateDone:
			return false, fmt.Errorf("saga: %w", ErrEnded)
		case s.Turn != nil:
			return false, nil
		case s.passedPivot() != "":
			return false, fmt.Errorf("saga: %w: %q is done", ErrPivot, s.passedPivot())
		case rec.State == store.StateRunning && !rec.LeaseExpired && b != nil && !b.Call.Repeat && !b.Call.Check && !b.Call.Cancel:
			scope, key := rec.Name, b.full()
			return false, &once.Error{Code: once.CodeInFlight, Effect: once.EffectNotApplied, Scope: scope, Key: key, After: time.Second, Err: errors.New("a call is under way, and only the node that makes it can tell its outcome")}
		}
		s.Turn, s.Tries, s.Stuck = &turn{once.Failure{Code: CodeCancelled, Message: reason}}, 0, ""
		return true, nil
	})
}

// changeIn makes a change to the saga in tx, after which it waits and is due.
func (r *Runner[TX]) changeIn(ctx context.Context, tx TX, id ID, how func(rec store.Record, s *saved) (bool, error)) error {
	rec, err := r.ops.Read(ctx, id.store())
	if err != nil {
		return err //nolint:wrapcheck // it is of the store
	}
	for range maxRuns {
		var c store.Change
		if rec.State == store.StateAbsent { // it may have been started in tx: no record has this fence
			c = store.Change{ID: id.store(), KeepRequest: true, Expect: store.Expect{Fence: -1}, Next: store.Record{State: store.StateWaiting, Nonce: held.NewNonce()}}
		} else {
			var changes bool
			if c, changes, err = r.dueChange(id.store(), rec, how); err != nil || !changes {
				return err
			}
		}
		now, err := r.writer.Write(ctx, tx, c)
		if err == nil || store.KindOf(err) != store.KindTaken {
			return err //nolint:wrapcheck // likewise
		}
		if rec = now; rec.State == store.StateAbsent {
			return fmt.Errorf("saga: %w", ErrNothing)
		}
	}
	return &once.Error{Code: once.CodeConflict, Effect: once.EffectNotApplied, Scope: id.store().Scope, Key: id.Key, Err: errOvertaken}
}

var errOvertaken = errors.New("the saga has changed at the same time. Try: again")

// dueChange is the change that how makes of a saga, which is due then.
func (n *node) dueChange(id store.ID, rec store.Record, how func(rec store.Record, s *saved) (bool, error)) (c store.Change, changes bool, err error) {
	s, err := decodeSaved(rec)
	if err == nil {
		changes, err = how(rec, &s)
	}
	if err != nil || !changes {
		return c, false, err
	}
	s.Due = time.Now().UTC()
	return store.Change{
		ID: id, KeepRequest: true, Expect: store.Expect{Fence: rec.Fence, Nonce: rec.Nonce},
		Next:   store.Record{State: store.StateWaiting, Fence: rec.Fence + 1, Nonce: held.NewNonce(), Data: s.encode(), RecoveryPoint: s.point(), CallStarted: s.calling() != nil},
		Writes: n.due.wait(id, rec.Name, 0, true),
	}, true, nil
}

// By says who decides about a saga that is stuck, and why. The decision is written to the audit (package operate) in the same commit, unless Who is
// empty.
type By struct{ Who, Reason string }

// Retry lets a saga that is stuck go on where it is, with new tries.
func (r *Runner[TX]) Retry(ctx context.Context, by By, id ID) error {
	return r.resolve(ctx, by, "retry", id, func(*saved) (string, error) { return "goes on", nil })
}

// Skip lets a saga that is stuck go on without the undo of a step: a person has undone it, or it stays. The step has its full name, as
// [Status] tells it.
func (r *Runner[TX]) Skip(ctx context.Context, by By, id ID, step string) error {
	return r.resolve(ctx, by, "skip", id, func(s *saved) (string, error) {
		i := s.find(step)
		switch {
		case s.Turn == nil:
			return "", errors.New("saga: the saga has not turned, so that nothing is to be undone. Try: Force for the outcome of a call")
		case i < 0 || s.Steps[i].State != stateDone && s.Steps[i].State != stateCalling:
			return "", fmt.Errorf("saga: step %q is not one that is to be undone. Try: a step that Status lists as done or calling", step)
		}
		b := s.Steps[i]
		b.State = stateSkipped
		*s = s.with(b)
		return fmt.Sprintf("step %q is not undone", step), nil
	})
}

// Force says what became of the call that a stuck saga waits for. With a value, which is what the step would have returned, the call has
// happened. With nil it has not, and never will: then it is made again, under another key.
func (r *Runner[TX]) Force(ctx context.Context, by By, id ID, step string, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("saga: the value is not JSON: %w", err)
	}
	return r.resolve(ctx, by, "force", id, func(s *saved) (string, error) {
		i := s.find(step)
		if i < 0 || s.Steps[i].State != stateCalling {
			return "", fmt.Errorf("saga: step %q is not a call whose outcome is unknown. Try: a step that Status lists as calling", step)
		}
		b := s.Steps[i]
		what := "has happened"
		switch {
		case value != nil:
			b.State, b.Result = stateDone, raw
			b = b.kept()
		case s.Turn != nil:
			what, b.State, b.Call = "has not happened", stateFailed, nil
		default:
			what = "has not happened"
			c := *b.Call
			c.Voided, c.NotYet = c.Voided+1, true
			b.Call = &c
		}
		*s = s.with(b)
		return fmt.Sprintf("call %q %s", step, what), s.fits()
	})
}

// resolve writes a decision about a saga that is stuck.
func (r *Runner[TX]) resolve(ctx context.Context, by By, action string, id ID, how func(*saved) (string, error)) error {
	var lost error
	nonce := held.NewNonce() // of all attempts: at most one is applied
	for delay := held.FirstDelay; ; delay = min(2*delay, held.MaxDelay) {
		rec, err := r.ops.Read(ctx, id.store())
		switch {
		case err == nil && lost != nil && string(rec.Nonce) == string(nonce):
			return nil
		case err == nil && rec.State != store.StateUnknown:
			if rec.State == store.StateAbsent {
				return fmt.Errorf("saga: %w", ErrNothing)
			}
			return errors.Join(&once.Error{Code: once.CodeMismatch, Effect: once.EffectNotApplied, Scope: id.store().Scope, Key: id.Key, Err: fmt.Errorf("the saga is %s, and not stuck. Try: Status", rec.State)}, lost)
		case err == nil:
			var c store.Change
			c, err = r.decision(by, action, id.store(), rec, how)
			if err != nil {
				return err
			}
			c.Next.Nonce = nonce
			_, err = r.ops.Swap(ctx, c)
		}
		switch store.KindOf(err) { //nolint:exhaustive // the others are final
		case store.KindLost:
			if lost == nil {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, held.SettleTime) //nolint:fatcontext // once: lost is set now
				defer cancel()
			}
			lost = err
		case store.KindRetry:
		default:
			if err == nil || lost == nil {
				return err
			}
		}
		if !sleep.For(ctx, rand.N(delay)+1) {
			return errors.Join(err, lost)
		}
	}
}

func (r *Runner[TX]) decision(by By, action string, id store.ID, rec store.Record, how func(*saved) (string, error)) (store.Change, error) {
	detail := ""
	c, _, err := r.dueChange(id, rec, func(_ store.Record, s *saved) (_ bool, err error) {
		detail, err = how(s)
		detail = "stuck: " + s.Stuck + ": " + detail
		s.Stuck, s.Tries = "", 0
		return true, err
	})
	if err != nil || by.Who == "" {
		return c, err
	}
	db, ok := store.As[sqlplane.Database](r.ops)
	if !ok {
		return c, errors.New("saga: the store has no tables, and so no audit. Try: By without Who")
	}
	c.Writes = append(c.Writes, audit.Insert(db.Dialect(), audit.Entry{
		Who: by.Who, Action: "saga " + action, Scope: id.Scope, KeyHash: keyname.Hashes(id.Key)[0], Reason: by.Reason, Detail: detail,
	}))
	return c, nil
}
