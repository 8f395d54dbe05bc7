package operate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oncelib/once"
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

	Now time.Time `json:"-"` // of the database, when this was read
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

// SagaFilter says which sagas to list. The zero value means all that have not expired.
type SagaFilter struct {
	Window

	State      string    // stuck, waiting, running, completed or compensated
	Definition string    // of this name
	Tenant     *string   // of this tenant
	Since      time.Time // begun, or ended, at this moment or later
	Before     time.Time // begun, or ended, before it
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
	asked := KeyFilter{Window: f.Window, is: in, ScopePrefix: string(owner.Saga), Name: f.Definition, Since: f.Since, Before: f.Before}
	if f.Tenant != nil {
		asked.Scope = string(owner.Saga) + *f.Tenant
	}
	list, err := s.keys.List(ctx, asked)
	return Page[Saga]{Items: convert(list.Items, sagaOf), Next: list.Next}, err
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
		Since: op.Since, LeaseUntil: op.LeaseUntil, ExpiresAt: op.ExpiresAt, Now: op.Now,
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
	list, err := s.Find(ctx, id.Key)
	if err != nil {
		return v, err
	}
	for _, one := range list {
		if one.Tenant == id.Tenant {
			v.Saga = one
		}
	}
	if v.Key == "" {
		return v, fmt.Errorf("operate: %w", saga.ErrNothing)
	}
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
