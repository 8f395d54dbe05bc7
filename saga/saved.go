package saga

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/toolarge"
	"github.com/oncelib/once/store"
)

// MaxSaved is the largest size of a saga's saved data in bytes: its input, and the inputs and results of its steps.
const MaxSaved = 64 << 10

// saved is the JSON in the record of a saga. It contains the part of the state for which [store.Record] has no field.
type saved struct {
	Definition string          `json:"definition"` // the fingerprint of the program that has written this
	Input      json.RawMessage `json:"input,omitempty"`
	Steps      []begun         `json:"steps,omitempty"` // in the order in which they have begun
	Tries      int             `json:"tries,omitempty"` // the failed tries of the next step or undo
	Turn       *turn           `json:"turn,omitempty"`
	Stuck      string          `json:"stuck,omitempty"` // why a person must decide
	Deadline   time.Time       `json:"deadline,omitzero"`
	Due        time.Time       `json:"due,omitzero"`     // when a waiting saga continues, by the clock of the process that has written it
	Sealed     []byte          `json:"sealed,omitempty"` // the secrets, if the saga is encrypted
}

// turn is the decision to undo the steps.
type turn struct {
	Cause once.Failure `json:"cause"` // the failure that the caller gets at the end
}

// state is the state of a step. The words are stored, so they never change.
type state string

const (
	stateCalling state = "calling" // the intent of a call is stored, and its outcome is not known
	stateDone    state = "done"
	stateFailed  state = "failed"  // the step has returned a failure, so it has no effect
	stateUndone  state = "undone"  // the step was undone, or its call was cancelled
	stateKept    state = "kept"    // after the turn: the step has no undo, so its effect stays
	stateSkipped state = "skipped" // after the turn: a person has decided that the step is not undone
)

// begun is a step that has begun.
type begun struct {
	Name    string          `json:"name"`
	Key     string          `json:"key,omitempty"`
	State   state           `json:"state"`
	Input   json.RawMessage `json:"input,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Failure *once.Failure   `json:"failure,omitempty"`
	Pivot   bool            `json:"pivot,omitempty"`
	Undo    bool            `json:"undo,omitempty"` // the step has an undo, or its call can be cancelled
	Call    *contract       `json:"call,omitempty"`
	Events  []string        `json:"events,omitempty"` // the IDs of the messages that its transactions have added to an outbox
}

// contract is the part of a call's definition that applied when its intent was stored.
type contract struct {
	Repeat bool      `json:"repeat,omitempty"`
	Until  time.Time `json:"until,omitzero"` // with Repeat: the last time for a repetition
	Check  bool      `json:"check,omitempty"`
	Cancel bool      `json:"cancel,omitempty"`
	NotYet bool      `json:"not_yet,omitempty"` // the service has answered "not yet"
	Voided int       `json:"voided,omitempty"`  // the number of keys that the service refuses
}

// repeats reports whether the call may be repeated under its key.
func (c *contract) repeats(now time.Time) bool {
	return c.NotYet || c.Repeat && (c.Until.IsZero() || now.Before(c.Until))
}

// permitsOne reports whether "not yet" permits only one further attempt. Every attempt is permitted if the call may be repeated
// for ever.
func (c *contract) permitsOne() bool { return c.NotYet && (!c.Repeat || !c.Until.IsZero()) }

// full returns the name of a step within its saga.
func (b begun) full() string { return fullName(b.Name, b.Key) }

func fullName(name, key string) string {
	if key == "" {
		return name
	}
	return name + "/" + key
}

func (s saved) find(full string) int {
	return slices.IndexFunc(s.Steps, func(b begun) bool { return b.full() == full })
}

// with returns s with the step b, which is new or replaces its earlier state.
func (s saved) with(b begun) saved {
	s.Steps = slices.Clone(s.Steps)
	if i := s.find(b.full()); i >= 0 {
		s.Steps[i] = b
	} else {
		s.Steps = append(s.Steps, b)
	}
	// A step that has ended begins a new count of tries.
	if b.State != stateCalling {
		s.Tries = 0
	}
	return s
}

// without returns s without the step full, which did not begin.
func (s saved) without(full string) saved {
	s.Steps = slices.DeleteFunc(slices.Clone(s.Steps), func(b begun) bool { return b.full() == full })
	return s
}

// calling returns the step whose call is in flight, or nil. No other step begins before this call has ended.
func (s saved) calling() *begun {
	for i := range s.Steps {
		if s.Steps[i].State == stateCalling {
			return &s.Steps[i]
		}
	}
	return nil
}

// passedPivot returns the name of the pivot if it is done, or "". After the pivot the saga cannot turn.
func (s saved) passedPivot() string {
	for _, b := range s.Steps {
		if b.Pivot && b.State == stateDone {
			return b.full()
		}
	}
	return ""
}

// behindPivot is the beginning of the recovery point of a saga that has passed its pivot and not ended. [Gauges] counts sagas by
// this text.
const behindPivot = "behind the pivot: "

// point returns the recovery point of the record, which lists show.
func (s saved) point(ended bool) string {
	last := ""
	if n := len(s.Steps); n > 0 {
		last = s.Steps[n-1].full()
	}
	if s.Turn != nil {
		last = "turned"
		// The steps are undone in reverse order, so the first undone step is the last progress.
		for _, b := range s.Steps {
			if b.State == stateUndone {
				return "undone " + b.full()
			}
		}
		return last
	}
	if s.passedPivot() != "" && !ended {
		return behindPivot + last
	}
	return last
}

// ended returns the state that is kept after the end of a saga, without data of the user.
func (s saved) ended() saved {
	s.Input, s.Steps = nil, slices.Clone(s.Steps)
	for i := range s.Steps {
		s.Steps[i].Input, s.Steps[i].Result, s.Steps[i].Call = nil, nil, nil
	}
	return s
}

func (s saved) encode() []byte {
	b, err := json.Marshal(s)
	if err != nil { // cannot fail: all raw messages are valid JSON
		panic(err)
	}
	return b
}

// fits returns an error if s is too large to be saved.
func (s saved) fits() error {
	n := len(s.Input)
	for _, b := range s.Steps {
		n += len(b.Name) + len(b.Key) + len(b.Input) + len(b.Result)
		if b.Failure != nil {
			n += len(b.Failure.Code) + len(b.Failure.Message) + len(b.Failure.Detail)
		}
	}
	if n > MaxSaved {
		return &toolarge.Error{Bytes: int64(n), Max: MaxSaved, Try: "smaller inputs and results, such as the keys of rows, or one step for many rows"}
	}
	return nil
}

// decodeSaved reads a record. Its secrets may still be encrypted.
func decodeSaved(rec store.Record) (s saved, err error) {
	if rec.Result.Kind == store.ResultOmitted && len(rec.Data) == 0 {
		return s, nil // the record was forgotten, and has no state
	}
	if err := json.Unmarshal(rec.Data, &s); err != nil {
		return s, fmt.Errorf("saga: the stored state of the saga cannot be decoded: %w", err)
	}
	return s, nil
}
