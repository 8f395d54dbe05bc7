package saga

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
)

// These constants are the states of a saga in [Status], for people and scripts.
const (
	StateRunning     = "running"
	StateWaiting     = "waiting"
	StateStuck       = "stuck" // a person must decide: see [Decide]
	StateCompleted   = "completed"
	StateCompensated = "compensated"
	StateForgotten   = "forgotten" // the saga has ended; its result is not stored any more
)

// StateOf returns the state of a saga. The parameter state is the state of the saga's record, and the
// parameter result is the kind of its stored result.
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
	Turned string          `json:"turned,omitempty"`    // the code of the failure because of which the saga has begun to undo its steps
	Stuck  string          `json:"stuck,omitempty"`     // why a person must decide
	Pivot  string          `json:"pivot,omitempty"`     // the name of the finished pivot, after which the saga cannot compensate
	Tries  int             `json:"tries,omitempty"`     // how many tries of the next step or undo have failed
	Due    time.Time       `json:"due,omitzero"`        // when a waiting saga continues, by the clock of the node that has written the time
	Input  json.RawMessage `json:"input,omitempty"`     // the input of the saga; it is deleted at the end of the saga, unless Config.KeepData is set
	Sealed bool            `json:"encrypted,omitempty"` // inputs and results exist, but are left out because no Encrypter was given
	Steps  []StepStatus    `json:"steps"`               // the steps of the saga, in the order in which the steps began
}

// StepStatus is a step that has begun.
type StepStatus struct {
	Step    string          `json:"step"`              // the full name of the step: its name, and its key if it has one
	State   string          `json:"state"`             // calling, done, failed, undone, kept (the step has no undo, so its effect stays) or skipped
	Failure string          `json:"failure,omitempty"` // the code of the failure that the step has returned
	Key     string          `json:"key,omitempty"`     // if the step is a call in flight, the key that the service receives
	Input   json.RawMessage `json:"input,omitempty"`   // the input of the step; it is kept as long as an undo of the step may need it
	Result  json.RawMessage `json:"result,omitempty"`
	Events  []string        `json:"events,omitempty"` // IDs of the messages that the step's transactions have added to an outbox, and of the webhooks that these transactions have sent

	// The fields Repeats, Until, Checked and Cancels describe a call in flight.
	Repeats bool      `json:"repeats,omitempty"` // the call can be made again under its key
	Until   time.Time `json:"until,omitzero"`    // if Repeats is set, the last time at which the call can be made again; zero means at any time
	Checked bool      `json:"checked,omitempty"` // the program can ask the service for the outcome
	Cancels bool      `json:"cancels,omitempty"` // the service can undo the call by its key, whatever its outcome
}

// StatusOf returns the status of a saga. StatusOf needs only the store of the saga, not the definition of the
// saga. StatusOf needs the Encrypter e only to decrypt inputs and results: if the decryption fails, StatusOf
// returns an error, and also a status without inputs and results. If no saga with this ID exists, StatusOf
// returns [ErrNothing].
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
