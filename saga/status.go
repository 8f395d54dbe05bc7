package saga

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
)

// The states of a saga, for people and scripts.
const (
	StateRunning     = "running"
	StateWaiting     = "waiting"
	StateStuck       = "stuck" // a person must decide: see [Decide]
	StateCompleted   = "completed"
	StateCompensated = "compensated"
	StateForgotten   = "forgotten" // it has ended, and only that is still stored
)

// StateOf returns the state of a saga with such a record.
func StateOf(state store.State, result store.ResultKind) string {
	switch {
	case state == store.StateUnknown:
		return StateStuck
	case state == store.StateDone && result == store.ResultFailure:
		return StateCompensated
	case state == store.StateDone && result == store.ResultOmitted:
		return StateForgotten
	case state == store.StateDone:
		return StateCompleted
	}
	return state.String()
}

// Status is the progress of a saga, for people and scripts.
type Status struct {
	State  string          `json:"state"`
	Turned string          `json:"turned,omitempty"`    // the code of the failure that has turned it
	Stuck  string          `json:"stuck,omitempty"`     // why a person must decide
	Pivot  string          `json:"pivot,omitempty"`     // the finished pivot: after it the saga cannot turn
	Tries  int             `json:"tries,omitempty"`     // failed tries of the next step or undo
	Due    time.Time       `json:"due,omitzero"`        // when a waiting saga goes on; by the clock of the node that has written it
	Input  json.RawMessage `json:"input,omitempty"`     // dropped at the end
	Sealed bool            `json:"encrypted,omitempty"` // inputs and results exist, and are left out because no Encrypter was given
	Steps  []StepStatus    `json:"steps"`               // in the order in which they have begun
}

// StepStatus is a step that has begun.
type StepStatus struct {
	Step    string          `json:"step"`              // its full name: with its key, if it has one
	State   string          `json:"state"`             // calling, done, failed, undone, kept or skipped
	Failure string          `json:"failure,omitempty"` // the code of its "no"
	Key     string          `json:"key,omitempty"`     // of a running call, at its service
	Input   json.RawMessage `json:"input,omitempty"`   // if an undo may need it
	Result  json.RawMessage `json:"result,omitempty"`
	Events  []string        `json:"events,omitempty"` // IDs of messages that its transactions have added to an outbox, and of webhooks that they have sent

	// The contract of a running call.
	Repeats bool      `json:"repeats,omitempty"` // it can be made again under its key
	Until   time.Time `json:"until,omitzero"`    // with Repeats: not later than this; zero means at any time
	Checked bool      `json:"checked,omitempty"` // the program can ask the service for the outcome
	Cancels bool      `json:"cancels,omitempty"` // the service can undo it by its key, whatever the outcome
}

// StatusOf returns the status of a saga. It needs its store, and not its program. It needs the Encrypter only for inputs and results: if they cannot
// be decrypted, it returns an error together with a status without them. The error is [ErrNothing] if no such saga exists.
func StatusOf(ctx context.Context, ops store.Operations, id ID, e once.Encrypter) (s Status, err error) {
	rec, err := ops.Read(ctx, id.store())
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
	sealed := data.Sealed != nil && e == nil
	if !sealed {
		data, err = data.open(e, id.store())
	}
	s = Status{
		State: StateOf(rec.State, rec.Result.Kind), Stuck: data.Stuck, Pivot: data.passedPivot(), Tries: data.Tries, Due: data.Due,
		Input: data.Input, Steps: []StepStatus{}, Sealed: sealed,
	}
	if data.Turn != nil {
		s.Turned = data.Turn.Cause.Code
	}
	at := &run{id: id.store()}
	for _, b := range data.Steps {
		st := StepStatus{Step: b.full(), State: string(b.State), Input: b.Input, Result: b.Result, Events: b.Events}
		if b.Failure != nil {
			st.Failure = b.Failure.Code
		}
		if b.State == stateCalling {
			st.Key = at.key(b)
			if c := b.Call; c != nil {
				st.Repeats, st.Until, st.Checked, st.Cancels = c.Repeat || c.NotYet, c.Until, c.Check, c.Cancel
			}
		}
		s.Steps = append(s.Steps, st)
	}
	return s, err
}

// Status returns the status of a saga: see [StatusOf].
func (r *Runner[TX]) Status(ctx context.Context, id ID) (Status, error) {
	return StatusOf(ctx, r.ops, id, r.cfg.Encrypter)
}
