package saga

import (
	"bytes"
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

// Action is what a [Decision] does to its saga.
type Action string

// These are the actions of a Decision. ActionRetry, ActionSkip and ActionForce are only for a saga that is
// stuck.
const (
	ActionRetry  Action = "retry"  // the saga continues at the same step, and the count of failed tries begins again at 0
	ActionSkip   Action = "skip"   // the saga continues without running the undo of the step that Decision.Step names: a person has undone the step, or the effect of the step stays
	ActionForce  Action = "force"  // the saga continues with the outcome that the person supplies for the call that Decision.Step names
	ActionCancel Action = "cancel" // the saga begins to undo its steps: see [Runner.Cancel]
	ActionWake   Action = "wake"   // the wait of the saga ends: see [Runner.Wake]
)

// Decision is what a person decides about a saga.
type Decision struct {
	Action Action

	// Step is the full name of the step that ActionSkip or ActionForce decides about, as in StepStatus.Step.
	Step string

	// Call, if it is set, is the key of the call that ActionForce decides about, as in StepStatus.Key. If the
	// saga has made another call since the person has read the [Status], Decide changes nothing.
	Call string

	// Fence, if it is not zero, is the fence (a number that grows with each change) of the record that the person
	// has seen. If the saga has continued since the person has seen the record, Decide changes nothing.
	Fence int64

	// Value, with ActionForce, is the result of the call, as JSON. If Value is set, the decision says that the
	// call has happened. ActionForce without Value says that the call has not happened and never will. After
	// ActionForce without Value, the call is made again under another key, unless the saga has begun to undo its
	// steps.
	Value json.RawMessage

	// Who names the person who decides, and Reason says why. Who and Reason are written to the audit (table
	// once_audit of package operate) in the same commit as the decision. The audit requires a store with SQL
	// tables. If Who is "", no entry is written to the audit. If the decision cancels the saga, Reason is the
	// message of the failure with which the saga ends.
	Who, Reason string

	// Encrypter encrypts Value. Encrypter is required if the saga is encrypted.
	Encrypter once.Encrypter

	// With Preview, Decide returns the effect of the decision in words, and changes nothing.
	Preview bool
}

// check refuses a decision whose fields do not fit its action.
func (d Decision) check() error {
	isAbout := d.Action == ActionSkip || d.Action == ActionForce
	switch {
	case d.Action != ActionRetry && d.Action != ActionCancel && d.Action != ActionWake && !isAbout:
		return fmt.Errorf("saga: there is no action %q. Try: one of retry, skip, force, cancel and wake", d.Action)
	case isAbout != (d.Step != ""):
		return fmt.Errorf("saga: a Decision with the action %q has the step %q. Try: set Step for skip and force, and leave it out for the other actions", d.Action, d.Step)
	case (d.Value != nil || d.Call != "") && d.Action != ActionForce:
		return fmt.Errorf("saga: a Decision with the action %q has a Value or a Call, which only the action force allows. Try: leave Value and Call out", d.Action)
	case d.Value != nil && !json.Valid(d.Value):
		return errors.New("saga: Decision.Value is not valid JSON. Try: the JSON of the value that the step would have returned")
	}
	return nil
}

// Decide stores a decision about a saga, and returns the effect of the decision in words. Decide needs only the
// store of the saga, not the definition of the saga: after the decision, any node that has the definition
// continues the saga. An error with the code [once.CodeMismatch] says that the decision does not fit the state of
// the saga, and that nothing was changed. For ActionCancel, Decide also returns the errors of [Runner.Cancel]. An
// error with the code once.CodeConflict says that the saga has continued during the call of Decide: either
// another decision was stored, or this decision was stored and the answer to its commit was lost. After
// once.CodeConflict, look at the saga's status before you call Decide again.
func Decide(ctx context.Context, ops store.Operations, id ID, d Decision) (detail string, err error) {
	if err := d.check(); err != nil {
		return "", err
	}
	p := &deciding{Decision: d, ops: ops, id: id, due: dueOf(ops), nonce: held.NewNonce()}
	for delay := held.FirstDelay; ; delay = min(2*delay, held.MaxDelay) {
		// After a lost answer the decision is sent again with the same nonce, so that at most one attempt is
		// applied.
		detail, err := p.once(ctx)
		switch store.KindOf(err) { //nolint:exhaustive // the others are final
		case store.KindLost:
			// The attempt may have been applied, so its outcome must be found out even if the caller has gone.
			if p.lost == nil {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, held.SettleTime) //nolint:fatcontext // once: lost is set now
				defer cancel()
			}
			p.lost = err
		case store.KindRetry:
		// The record has changed between the read and the write: the next attempt reads it again.
		case store.KindTaken:
			err = errOvertaken
		default:
			if err == nil || p.lost == nil || once.CodeOf(err) == once.CodeMismatch || errors.Is(err, errOvertaken) {
				return detail, errors.Join(err, p.lost)
			}
		}
		if !sleep.For(ctx, rand.N(delay)+1) {
			return "", errors.Join(err, p.lost)
		}
	}
}

// deciding is a decision that is being stored.
type deciding struct {
	Decision

	ops   store.Operations
	id    ID
	due   due
	nonce []byte // the same nonce in all attempts, so that at most one attempt is applied
	about []byte // the nonce of the record that the first attempt has read
	lost  error  // the error of an attempt without an answer
	said  string // the detail of that attempt
}

// hasGoneOn reports whether the saga has changed since the first attempt. Either another decision was faster, or this
// decision was applied without an answer and a node has continued the saga. Then the saga may be stuck at another call,
// which the decision does not concern.
func (p *deciding) hasGoneOn(rec store.Record) bool {
	if p.about == nil {
		p.about = append([]byte{}, rec.Nonce...)
		if p.Fence != 0 && p.Fence != rec.Fence {
			return true
		}
	}
	// A cancel or a wake has the same effect in every later state. The other actions concern one step.
	isRepeatable := p.Action == ActionCancel || p.Action == ActionWake
	return !isRepeatable && !bytes.Equal(p.about, rec.Nonce)
}

// once compares the decision with the stored record, and writes it.
func (p *deciding) once(ctx context.Context) (detail string, err error) {
	rec, err := p.ops.Read(ctx, p.id.store())
	switch {
	case err != nil:
		return "", err //nolint:wrapcheck // it is of the store
	case p.lost != nil && string(rec.Nonce) == string(p.nonce):
		// The attempt whose answer was lost has been applied.
		p.lost = nil
		return p.said, nil
	case rec.State == store.StateAbsent:
		return "", fmt.Errorf("saga: %w", ErrNothing)
	case p.hasGoneOn(rec):
		id, effect := p.id.store(), once.EffectNotApplied
		if p.lost != nil {
			effect = once.EffectInDoubt
		}
		return "", &once.Error{Code: once.CodeConflict, Effect: effect, Scope: id.Scope, Key: id.Key, Err: errOvertaken}
	}
	c, changes, err := dueChange(p.due, p.id.store(), rec, func(rec store.Record, s *saved) (changes bool, err error) {
		changes, p.said, err = p.apply(rec, s)
		return changes, err
	})
	if err != nil {
		return "", err
	}
	if rec.State == store.StateRunning && p.Action == ActionWake {
		c = store.Change{Writes: p.due.wake(p.id.store(), rec.Name)} // its next wait ends at once
	}
	entry, err := p.audited(rec)
	if err != nil || !changes || p.Preview {
		return p.said, err
	}
	c.Writes = append(c.Writes, entry...)
	// A node works on the saga and owns its record, so the wake is stored in a separate row.
	if c.ID == (store.ID{}) {
		return p.said, write(ctx, p.ops, c.Writes)
	}
	c.Next.Nonce = p.nonce
	_, err = p.ops.Swap(ctx, c)
	return p.said, err //nolint:wrapcheck // it is of the store
}

// write executes writes in a separate transaction. Each write can be repeated.
func write(ctx context.Context, ops store.Operations, writes []store.Statement) error {
	db, ok := store.As[sqlplane.Database](ops)
	if !ok {
		return nil // without tables, a wake has no effect on a saga that does not wait
	}
	return db.Within(ctx, store.DefaultIsolation, func(ctx context.Context, r sqlplane.Runner) error { //nolint:wrapcheck // it is of the store
		for _, s := range writes {
			if _, err := r.Exec(ctx, s); err != nil {
				return err //nolint:wrapcheck // likewise
			}
		}
		return nil
	})
}

// apply makes the change of the decision to s.
func (p *deciding) apply(rec store.Record, s *saved) (changes bool, detail string, err error) {
	switch p.Action {
	case ActionCancel:
		if changes, err = cancel(p.id.store(), rec, s, p.Reason); !changes {
			return false, "the saga was already undoing its steps before this decision", err
		}
		return true, "the saga undoes its steps", nil
	case ActionWake:
		if rec.State != store.StateWaiting && rec.State != store.StateRunning {
			return false, "", p.mismatch("is %s, so it does not wait for a wake. Try: the action retry, if the saga is stuck", rec)
		}
		return true, "the saga goes on now", nil
	case ActionRetry, ActionSkip, ActionForce:
	}
	if rec.State != store.StateUnknown {
		return false, "", p.mismatch("is %s, and not stuck, so there is nothing to decide. Try: look at the status of the saga", rec)
	}
	switch p.Action { //nolint:exhaustive // see above
	case ActionSkip:
		detail, err = p.skip(s)
	case ActionForce:
		if detail, err = p.force(s); errors.Is(err, errOtherCall) {
			return false, "", p.mismatch("is %s, and %w", rec, err)
		}
	default:
		detail = "the saga continues at the place where it was stuck"
	}
	// After a decision the saga gets the full number of tries.
	s.Stuck, s.Tries = "", 0
	return true, detail, err
}

var errOtherCall = errors.New("Decision.Call names another call than the call whose outcome is unknown now. Try: look at the status of the saga, and decide about the call that it shows")

func (p *deciding) mismatch(format string, rec store.Record, more ...any) error {
	id := p.id.store()
	return &once.Error{
		Code: once.CodeMismatch, Effect: once.EffectNotApplied, Scope: id.Scope, Key: id.Key,
		Err: fmt.Errorf("the saga "+format, append([]any{StateOf(rec.State, rec.Result.Kind)}, more...)...),
	}
}

// skip marks a step, so that the compensation does not undo this step.
func (p *deciding) skip(s *saved) (string, error) {
	i := s.find(p.Step)
	switch {
	case s.Turn == nil:
		return "", errors.New("saga: the action skip is only for a saga that undoes its steps, and this saga does not undo its steps now. Try: the action force for the outcome of a call, or cancel")
	case i < 0 || s.Steps[i].State != stateDone && s.Steps[i].State != stateCalling:
		return "", fmt.Errorf("saga: the action skip cannot skip step %q, because the saga does not have to undo this step. Try: a step that has the state done or calling in the status of the saga", p.Step)
	}
	b := s.Steps[i]
	b.State = stateSkipped
	*s = s.with(b)
	return fmt.Sprintf("step %q is not undone", p.Step), nil
}

// force sets the outcome of a call that a person knows.
func (p *deciding) force(s *saved) (string, error) {
	i := s.find(p.Step)
	if i < 0 || s.Steps[i].State != stateCalling || s.Steps[i].Call == nil {
		return "", fmt.Errorf("saga: the action force needs a call whose outcome is unknown, and step %q is not such a call. Try: a step that has the state calling in the status of the saga", p.Step)
	}
	// The status has shown the key of the call. With another key, the decision is about an earlier attempt.
	b := s.Steps[i]
	if now := (&run{id: p.id.store()}).key(b); p.Call != "" && p.Call != now {
		return "", errOtherCall
	}
	what := "has not happened"
	switch {
	case p.Value != nil && s.Sealed != nil:
		return p.forceSealed(s)
	case p.Value != nil:
		what, b.State, b.Result = fmt.Sprintf("has happened, with a result of %d bytes", len(p.Value)), stateDone, p.Value
		b = b.kept()
	case s.Turn != nil:
		// While the saga compensates, a call that has not happened is not made again, and there is nothing to undo.
		b.State, b.Call = stateFailed, nil
	default:
		what = "has not happened, and is made again under another key"
		c := *b.Call
		// A request with the old key may still be in the network, so the next attempt has another key.
		c.Voided, c.NotYet = c.Voided+1, true
		b.Call = &c
	}
	*s = s.with(b)
	return fmt.Sprintf("call %q %s", p.Step, what), s.fits()
}

// forceSealed does the same as force for an encrypted saga.
func (p *deciding) forceSealed(s *saved) (detail string, err error) {
	opened, err := s.open(p.Encrypter, p.id.store())
	if err != nil {
		return "", err
	}
	if detail, err = p.force(&opened); err == nil {
		*s, err = opened.seal(p.Encrypter, p.id.store())
	}
	return detail, err
}

// audited returns the entry of the audit, if Who is set.
func (p *deciding) audited(rec store.Record) ([]store.Statement, error) {
	if p.Who == "" {
		return nil, nil
	}
	db, ok := store.As[sqlplane.Database](p.ops)
	if !ok {
		return nil, errors.New("saga: the store has no SQL tables, so it cannot store the name of the operator who decides. Try: a Decision without Who")
	}
	detail := StateOf(rec.State, rec.Result.Kind) + "; " + p.said
	if s, err := decodeSaved(rec); err == nil && s.Stuck != "" {
		detail = "stuck, because " + s.Stuck + "; " + p.said
	}
	id := p.id.store()
	return []store.Statement{audit.Insert(db.Dialect(), audit.Entry{
		Who: p.Who, Action: "saga " + string(p.Action), Scope: id.Scope, KeyHash: keyname.Hashes(id.Key)[0], Reason: p.Reason, Detail: detail,
	})}, nil
}

// dueChange returns the change that the function how makes to the saga. After the change the saga is due.
func dueChange(d due, id store.ID, rec store.Record, how func(rec store.Record, s *saved) (bool, error)) (c store.Change, changes bool, err error) {
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
		Next:   store.Record{State: store.StateWaiting, Fence: rec.Fence + 1, Nonce: held.NewNonce(), Data: s.encode(), RecoveryPoint: s.point(false), CallStarted: s.calling() != nil},
		Writes: d.wait(id, rec.Name, 0),
	}, true, nil
}
