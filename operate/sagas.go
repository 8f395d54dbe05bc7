package operate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/internal/owner"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store"
)

// Sagas are the sagas of a database, of all programs. What is decided needs no definition: the node that has it goes on.
type Sagas struct {
	keys      *Keys
	ops       store.Operations // nil: the store keeps none
	encrypter once.Encrypter
}

// Saga is a saga in a list.
type Saga struct {
	Tenant     string     `json:"tenant"`
	Key        string     `json:"key"`
	Definition string     `json:"saga"`         // the name of its definition
	State      string     `json:"state"`        // of saga.StateRunning to saga.StateForgotten, or StateExpired
	At         string     `json:"at,omitempty"` // the last step, and behind the turn what is undone
	Since      time.Time  `json:"since"`        // when it was started, or has ended
	LeaseUntil *time.Time `json:"lease_until,omitempty"`
	ExpiresAt  *time.Time `json:"expires_at,omitempty"` // of one that has ended

	Fence int64     `json:"-"` // for saga.Decision
	Now   time.Time `json:"-"` // of the database, when this was read
}

// ID returns what names the saga.
func (s Saga) ID() saga.ID { return saga.ID{Tenant: s.Tenant, Key: s.Key} }

// SagaView is what a database knows of a saga.
type SagaView struct {
	Saga

	Progress saga.Status `json:"progress"`
	Audit    []Entry     `json:"audit"` // what operators have done to it, the oldest first
}

// WithoutBody returns v without what steps were given and have returned.
func (v SagaView) WithoutBody() SagaView {
	v.Progress.Input = nil
	v.Progress.Steps = convert(v.Progress.Steps, func(s saga.StepStatus) saga.StepStatus { s.Input, s.Result = nil, nil; return s })
	return v
}

// Meaning says what the state means, for a person who was woken up by it. Of a saga that is stuck it is why.
func (v SagaView) Meaning() string {
	switch v.State {
	case saga.StateRunning:
		if v.LeaseUntil != nil && !v.LeaseUntil.After(v.Now) {
			return "its node has died; another one that has this definition takes it over"
		}
		return "a node works on it"
	case saga.StateWaiting:
		return "a node that has this definition goes on with it when it is due"
	case saga.StateStuck:
		return words.Shown(v.Progress.Stuck)
	case saga.StateCompleted:
		return "all its steps have taken effect"
	case saga.StateCompensated:
		return "what had taken effect and has an undo is undone"
	case saga.StateForgotten:
		return "it has ended, and what was stored of it is forgotten"
	case StateExpired:
		return "its record is over: another saga can be started under this key"
	}
	return "not known to this release"
}

// Choices are what a person can decide about the saga as it stands: the action, and its step if it is about one.
func (v SagaView) Choices() (list []saga.Decision) {
	add := func(a saga.Action, step string) { list = append(list, saga.Decision{Action: a, Step: step}) }
	switch v.State {
	case saga.StateStuck:
		add(saga.ActionRetry, "")
		for _, s := range v.Progress.Steps {
			switch {
			case s.State == "calling":
				add(saga.ActionForce, s.Step)
			case s.State == "done" && v.Progress.Turned != "":
				add(saga.ActionSkip, s.Step)
			}
		}
	case saga.StateWaiting:
		add(saga.ActionWake, "")
	case saga.StateRunning:
	default:
		return nil
	}
	if v.Progress.Turned == "" && v.Progress.Pivot == "" {
		add(saga.ActionCancel, "")
	}
	return list
}

// SagaFilter says which sagas to list. The zero value means all that have not expired.
type SagaFilter struct {
	Window

	State      string    // stuck, waiting, running, completed or compensated
	Definition string    // of this name
	Tenant     *string   // of this tenant
	Since      time.Time // begun, or ended, at this moment or later
	Before     time.Time // begun, or ended, before it

	// Most is how many sagas are read at most to fill the page: behind them it ends, with Page.Cut. 0 means no limit.
	Most int
}

// sagaStates are the conditions of states of sagas.
var sagaStates = map[string]string{
	"":                    "(state <> 2 or expires_at is null or expires_at > NOW)",
	saga.StateRunning:     states["running"],
	saga.StateWaiting:     states["waiting"],
	saga.StateStuck:       states["unknown"],
	saga.StateCompleted:   states["done"] + " and kind = 0",
	saga.StateCompensated: states["done"] + " and kind = 1",
}

// List returns sagas by tenant and key. It is [Keys.List] of them.
func (s *Sagas) List(ctx context.Context, f SagaFilter) (p Page[Saga], err error) {
	in, ok := sagaStates[f.State]
	if !ok {
		return p, fmt.Errorf("operate: there is no state %q. Try: stuck, waiting, running, completed or compensated", f.State)
	}
	asked := KeyFilter{Window: f.Window, is: in, ScopePrefix: string(owner.Saga), Name: f.Definition, Since: f.Since, Before: f.Before, Most: f.Most}
	switch f.State { // those that have not ended are read by an index of their own
	case saga.StateRunning, saga.StateWaiting:
		asked.State = f.State
	case saga.StateStuck:
		asked.State = store.StateUnknown.String()
	}
	if f.Tenant != nil {
		asked.Scope, asked.ScopePrefix = string(owner.Saga)+*f.Tenant, ""
	}
	list, err := s.keys.List(ctx, asked)
	return Page[Saga]{Items: convert(list.Items, sagaOf), Next: list.Next, Cut: list.Cut}, err
}

// Find returns the sagas under a key, of all tenants.
func (s *Sagas) Find(ctx context.Context, key string) (list []Saga, err error) {
	found, err := s.keys.Find(ctx, key)
	for _, op := range found {
		if owner.Of(op.Scope) == owner.Saga && op.Key == key {
			list = append(list, sagaOf(op))
		}
	}
	return list, err
}

func sagaOf(op Operation) Saga {
	one := Saga{
		Tenant: strings.TrimPrefix(op.Scope, string(owner.Saga)), Key: op.Key, Definition: op.Name, State: op.State, At: op.RecoveryPoint,
		Since: op.Since, LeaseUntil: op.LeaseUntil, ExpiresAt: op.ExpiresAt, Fence: op.Fence, Now: op.Now,
	}
	switch {
	case op.State == StateExpired:
	case op.State == store.StateUnknown.String():
		one.State = saga.StateStuck
	case op.State == store.StateDone.String() && op.Result == "omitted":
		one.State = saga.StateForgotten
	case op.State == store.StateDone.String() && op.Result == "failure":
		one.State = saga.StateCompensated
	case op.State == store.StateDone.String():
		one.State = saga.StateCompleted
	}
	return one
}

// Show returns what is known of a saga, and of what its steps were given if it can be decrypted. The error is [saga.ErrNothing] if there is none.
func (s *Sagas) Show(ctx context.Context, id saga.ID) (v SagaView, err error) {
	list, err := collect(ctx, s.keys.db.Pool(), s.keys.statement(operationColumns+"scope = ? and KEY = ?", string(owner.Saga)+id.Tenant, id.Key), scanOperation)
	switch {
	case err != nil:
		return v, err
	case len(list) == 0:
		return v, fmt.Errorf("operate: %w", saga.ErrNothing)
	}
	v.Saga = sagaOf(list[0])
	timeline, err := s.keys.timelineIfAny(ctx, string(owner.Saga)+id.Tenant, id.Key, 0)
	if v.Audit = timeline.Audit; err != nil || s.ops == nil {
		return v, errors.Join(err, s.none())
	}
	v.Progress, err = saga.StatusOf(ctx, s.ops, id, s.encrypter)
	return v, err //nolint:wrapcheck // it is of package saga
}

// Decide writes a decision and its entry of the audit in one commit, and returns it in words, as [saga.Decide] describes. It ignores Who,
// Reason and Encrypter of d.
func (s *Sagas) Decide(ctx context.Context, by By, id saga.ID, d saga.Decision) (detail string, err error) {
	if err := errors.Join(by.check(), s.none()); err != nil {
		return "", err
	}
	d.Who, d.Reason, d.Encrypter = by.Who, by.Reason, s.encrypter
	return saga.Decide(ctx, s.ops, id, d) //nolint:wrapcheck // it is of package saga
}

// Forget erases what a saga that has ended has stored: its outcome, where its steps are, and what they were given, if that was kept
// ([saga.Config].KeepData). That it has ended, its tenant and its key stay until it expires, so that the same start is answered with
// [once.CodeNoResult] and does nothing. See [Keys.Forget].
func (s *Sagas) Forget(ctx context.Context, by By, id saga.ID, preview bool) (detail string, err error) {
	scope := string(owner.Saga) + id.Tenant
	return s.keys.Forget(owner.Enter(ctx, owner.Saga), by, ForgetRequest{Scope: scope, Key: id.Key, Preview: preview})
}

// none is why nothing can be read, if the store keeps no operations.
func (s *Sagas) none() error {
	if s.ops == nil {
		return errNoOperations
	}
	return nil
}
