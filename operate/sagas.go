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

// Sagas gives access to the sagas of a database, of all programs that use this database. An operator can decide about a saga in a process that does
// not have the saga's definition. After the decision, a process that has the saga's definition continues the saga.
type Sagas struct {
	keys      *Keys
	ops       store.Operations // nil if the store keeps no operations
	encrypter once.Encrypter
}

// Saga describes one saga in a list of sagas.
type Saga struct {
	Tenant     string     `json:"tenant"`
	Key        string     `json:"key"`
	Definition string     `json:"saga"`         // the name of the saga's definition
	State      string     `json:"state"`        // one of saga.StateRunning to saga.StateForgotten, or StateExpired
	At         string     `json:"at,omitempty"` // the last step of the saga; or, if the saga is being undone, the step that is being undone
	Since      time.Time  `json:"since"`        // when the saga was started, or, if it has ended, when it ended
	LeaseUntil *time.Time `json:"lease_until,omitempty"`
	ExpiresAt  *time.Time `json:"expires_at,omitempty"` // when the retention of an ended saga is over

	Fence int64     `json:"-"` // the fence of the saga, a number that grows with every write; a saga.Decision must have the same fence
	Now   time.Time `json:"-"` // the time of the database's clock when this value was read
}

// ID returns the tenant and the key of the saga.
func (s Saga) ID() saga.ID { return saga.ID{Tenant: s.Tenant, Key: s.Key} }

// SagaView has all stored facts about a saga.
type SagaView struct {
	Saga

	Progress saga.Status `json:"progress"`
	Audit    []Entry     `json:"audit"` // the acts of operators on this saga, oldest first
}

// WithoutBody returns v without the inputs and results of the saga's steps.
func (v SagaView) WithoutBody() SagaView {
	v.Progress.Input = nil
	v.Progress.Steps = convert(v.Progress.Steps, func(s saga.StepStatus) saga.StepStatus { s.Input, s.Result = nil, nil; return s })
	return v
}

// Meaning returns sentences that explain the state of the saga to an operator who was alerted. If the saga is stuck, the result of Meaning says why.
func (v SagaView) Meaning() string {
	switch v.State {
	case saga.StateRunning:
		if v.LeaseUntil != nil && !v.LeaseUntil.After(v.Now) {
			return "the node that ran the saga has died; another node with the definition of the saga continues"
		}
		return "a node is executing the saga"
	case saga.StateWaiting:
		return "a node with the definition of the saga continues when the saga is due"
	case saga.StateStuck:
		return words.Shown(v.Progress.Stuck)
	case saga.StateCompleted:
		return "all steps of the saga have taken effect"
	case saga.StateCompensated:
		return "each step that took effect and has an undo is undone"
	case saga.StateForgotten:
		return "the saga has ended, and its stored data was erased"
	case StateExpired:
		return "the record of the saga has expired: another saga can start with this key"
	}
	return "this release of the command once does not know the state"
}

// Choices returns the decisions that are possible in the saga's current state. Each decision has an Action, and also a Step if the action needs a
// step.
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

// SagaFilter chooses sagas. The zero value of SagaFilter chooses all sagas that have not expired.
type SagaFilter struct {
	Window

	State      string    // one of stuck, waiting, running, completed and compensated; "" means all states
	Definition string    // sagas whose definition has this name
	Tenant     *string   // sagas of this tenant; nil means all tenants
	Since      time.Time // sagas that began or ended at this time or later
	Before     time.Time // sagas that began or ended before this time

	// Most limits the number of sagas that are read from the database to fill the page; if the limit has ended the page, Page.Cut is true. 0 means no
	// limit.
	Most int
}

// sagaStates has the conditions of the states of sagas.
var sagaStates = map[string]string{
	"":                    "(state <> 2 or expires_at is null or expires_at > NOW)",
	saga.StateRunning:     states["running"],
	saga.StateWaiting:     states["waiting"],
	saga.StateStuck:       states["unknown"],
	saga.StateCompleted:   states["done"] + " and kind = 0",
	saga.StateCompensated: states["done"] + " and kind = 1",
}

// List returns the sagas that match f, sorted by tenant and key. The documentation of [Keys.List] says which indexes List uses.
func (s *Sagas) List(ctx context.Context, f SagaFilter) (p Page[Saga], err error) {
	in, ok := sagaStates[f.State]
	if !ok {
		return p, fmt.Errorf("operate: the state %q does not exist. Try: stuck, waiting, running, completed or compensated", f.State)
	}
	asked := KeyFilter{Window: f.Window, is: in, ScopePrefix: string(owner.Saga), Name: f.Definition, Since: f.Since, Before: f.Before, Most: f.Most}
	switch f.State { // an index has only the sagas that have not ended
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

// Find returns the sagas with this key, of all tenants.
func (s *Sagas) Find(ctx context.Context, key string) (list []Saga, err error) {
	found, err := s.keys.Find(ctx, key)
	for _, op := range found {
		// Operations that are not sagas may have the same key.
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

// Show returns all stored facts about a saga, with the inputs of its steps if they can be decrypted. If the saga does not exist, Show returns
// [saga.ErrNothing].
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

// Decide writes the decision d about a saga and, in the same commit, an entry of the audit table: see [saga.Decide]. Decide returns a text that
// describes the decision. Decide ignores the fields Who, Reason and Encrypter of d.
func (s *Sagas) Decide(ctx context.Context, by By, id saga.ID, d saga.Decision) (detail string, err error) {
	if err := errors.Join(by.check(), s.none()); err != nil {
		return "", err
	}
	d.Who, d.Reason, d.Encrypter = by.Who, by.Reason, s.encrypter
	return saga.Decide(ctx, s.ops, id, d) //nolint:wrapcheck // it is of package saga
}

// Forget erases the stored data of a saga that has ended: its outcome, the states of its steps, and the inputs of its steps, if
// [saga.Config].KeepData has kept these inputs. The state, the tenant and the key of the saga are kept until its retention is over. So a second start
// of a forgotten saga with the same key does nothing, and gets the error [once.CodeNoResult]. If preview is true, Forget rolls all its changes back.
// See [Keys.Forget].
func (s *Sagas) Forget(ctx context.Context, by By, id saga.ID, preview bool) (detail string, err error) {
	scope := string(owner.Saga) + id.Tenant
	return s.keys.Forget(owner.Enter(ctx, owner.Saga), by, ForgetRequest{Scope: scope, Key: id.Key, Preview: preview})
}

// none returns an error if the store keeps no operations.
func (s *Sagas) none() error {
	if s.ops == nil {
		return errNoOperations
	}
	return nil
}
