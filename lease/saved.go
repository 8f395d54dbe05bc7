package lease

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/oncelib/once"
)

// saved is the part of an operation's record that describes its phases. It is stored as JSON, so its names never change.
type saved struct {
	Phases []phase       `json:"phases,omitempty"`
	Call   *intent       `json:"call,omitempty"` // the call that was begun and whose outcome is not known
	Keys   []voided      `json:"voided,omitempty"`
	Was    []decided     `json:"decided,omitempty"` // decisions of people, including decisions about calls that have ended since
	Retain time.Duration `json:"retain,omitempty"`  // how long the result is kept, as the first claim says; [once.Forever]; 0: the claim has not said it
}

// phase is a phase that has ended.
type phase struct {
	Name    string          `json:"name"`
	Value   json.RawMessage `json:"value,omitempty"`
	Failure *once.Failure   `json:"failure,omitempty"`
	Sealed  []byte          `json:"sealed,omitempty"`  // the value or the failure, encrypted; Failure then has only its code
	ByHand  bool            `json:"by_hand,omitempty"` // a person has said that the call has happened, with this value
	Begun   *intent         `json:"begun,omitempty"`   // with ByHand: the earlier intent, in case the program cannot read the value
	Events  []string        `json:"events,omitempty"`  // IDs of messages that the phase's transaction has added to an outbox
}

// decided is a decision that was written: see [Resolve].
type decided struct {
	ID   string `json:"id"`  // the ID of the decided call
	Sum  string `json:"sum"` // a hash of the decision
	What string `json:"what"`
}

// voided counts the keys of a call that can never take effect, because the service has tombstones for them.
type voided struct {
	Phase string `json:"phase"`
	Count int    `json:"count"`
}

// intent is a call that is about to be made, and what its policy says if its outcome is not known.
type intent struct {
	Phase  string    `json:"phase"`
	Tx     bool      `json:"tx,omitempty"`     // not a call: a phase has ended its transaction itself
	ID     string    `json:"id,omitempty"`     // the ID of this call; it changes when a person has the call made again
	Repeat bool      `json:"repeat,omitempty"` // the call may be made again under the same key
	Until  time.Time `json:"until,omitzero"`   // with Repeat: the last time at which the call may be made again; zero: at any time
	Check  bool      `json:"check,omitempty"`
	Asked  time.Time `json:"asked,omitzero"` // with Check: when the service was asked last
	Begun  time.Time `json:"begun,omitzero"` // when the intent was stored

	CheckFor time.Duration `json:"check_for,omitzero"` // with Check: how long after Begun the service can be asked; zero: at any time

	Request []byte `json:"request,omitzero"`  // frozen; nil: the call has no frozen request
	Sealed  bool   `json:"sealed,omitempty"`  // Request is encrypted
	Refused string `json:"refused,omitempty"` // why the program could not read the value that a person has entered
}

// String returns "call" or "phase", and the name.
func (c *intent) String() string {
	if c.Tx {
		return "phase " + c.Phase
	}
	return "call " + c.Phase
}

// repeats reports whether the call can be made again under the same key.
func (c *intent) repeats(now time.Time) bool {
	return c.Repeat && (c.Until.IsZero() || now.Before(c.Until))
}

// checks reports whether the service can be asked. A service that has forgotten the call cannot: even if it finds nothing and refuses
// the key from then on, the call may have had an effect.
func (c *intent) checks(now time.Time) bool {
	return c != nil && c.Check && c.isYounger(c.CheckFor, now)
}

// isYounger reports whether the intent is younger than age; it is true if age is zero. An intent without a time
// is not younger.
func (c *intent) isYounger(age time.Duration, now time.Time) bool {
	return age == 0 || !c.Begun.IsZero() && now.Sub(c.Begun) < age
}

// resumable reports whether another owner may continue without a person.
func (c *intent) resumable(now time.Time) bool { return c == nil || c.checks(now) || c.repeats(now) }

func decodeSaved(data []byte) (s saved, err error) {
	if len(data) == 0 {
		return s, nil
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("the saved phases of the operation cannot be read: %w", err)
	}
	return s, nil
}

// isEmpty reports whether nothing of the work was saved.
func (s saved) isEmpty() bool {
	return len(s.Phases) == 0 && s.Call == nil && len(s.Keys) == 0 && len(s.Was) == 0
}

func (s saved) encode() []byte {
	if s.isEmpty() && s.Retain == 0 {
		return nil
	}
	b, err := json.Marshal(s)
	if err != nil { // cannot happen: every value is JSON already
		panic(err)
	}
	return b
}

// size returns the size that MaxSaved limits: the data of the program, without the decisions of people.
func (s saved) size() int {
	s.Was, s.Phases = nil, slices.Clone(s.Phases)
	for i := range s.Phases {
		s.Phases[i].Events = nil
	}
	return len(s.encode())
}

// find returns the phase with a name.
func (s saved) find(name string) (phase, bool) {
	i := slices.IndexFunc(s.Phases, func(p phase) bool { return p.Name == name })
	if i < 0 {
		return phase{}, false
	}
	return s.Phases[i], true
}

func (s saved) has(name string) bool {
	_, ok := s.find(name)
	return ok
}

// with returns s with one more phase, and without the call.
func (s saved) with(p phase) saved {
	// Clip, because the old state, which stays valid if the write fails, shares the array.
	s.Phases = append(slices.Clip(s.Phases), p)
	s.Call = nil
	return s
}

// without returns s without the phase with a name.
func (s saved) without(name string) saved {
	s.Phases = slices.DeleteFunc(slices.Clone(s.Phases), func(p phase) bool { return p.Name == name })
	return s
}

// decided returns s with one more decision.
func (s saved) decided(d decided) saved {
	s.Was = append(slices.Clip(s.Was), d)
	return s
}

// ended returns the part that is kept after the end of an operation, for people who ask how it ended. It has no values and no requests.
func (s saved) ended() (e saved) {
	for _, p := range s.Phases {
		if p.Failure != nil {
			p.Failure = &once.Failure{Code: p.Failure.Code}
		}
		e.Phases = append(e.Phases, phase{Name: p.Name, Failure: p.Failure, ByHand: p.ByHand, Events: p.Events})
	}
	if s.Call != nil {
		e.Call = &intent{Phase: s.Call.Phase, Tx: s.Call.Tx, ID: s.Call.ID}
	}
	e.Keys, e.Was = s.Keys, s.Was
	return e
}

// begun returns s with a call that was begun.
func (s saved) begun(c intent) saved {
	s.Call = &c
	return s
}

// void returns s without its call. The key of that call can never take effect any more.
func (s saved) void(phase string) saved {
	s.Call = nil
	// Cloned, because the old state, which stays valid if the write fails, shares the array.
	s.Keys = slices.Clone(s.Keys)
	for i := range s.Keys {
		if s.Keys[i].Phase == phase {
			s.Keys[i].Count++
			return s
		}
	}
	s.Keys = append(s.Keys, voided{phase, 1})
	return s
}

// generation returns how many keys of a call are void.
func (s saved) generation(phase string) int {
	for _, v := range s.Keys {
		if v.Phase == phase {
			return v.Count
		}
	}
	return 0
}

// last returns the name of the last phase that has ended.
func (s saved) last() string {
	if n := len(s.Phases); n > 0 {
		return s.Phases[n-1].Name
	}
	return ""
}

// decode returns the saved result of a phase.
func decode[T any](r *Run, p phase) (value T, err error) {
	if p, err = r.open(p); err != nil {
		return value, err
	}
	if p.Failure != nil {
		return value, p.Failure
	}
	if err := json.Unmarshal(p.Value, &value); err != nil {
		return value, fmt.Errorf("phase %q has saved a value that cannot be decoded into the type that the phase returns now: %w. Try: a new name for a phase that returns another type", p.Name, err)
	}
	return value, nil
}

// earlier returns the result of a phase of an earlier run. If a person has entered the value, and the program
// would not have saved it in this form, the outcome of the call becomes unknown again.
func earlier[T any](r *Run, p phase) (value T, err error) {
	// Only the last phase: later phases have used the value already.
	if !p.ByHand || p.Begun == nil || p.Name != r.saved.last() {
		return decode[T](r, p)
	}
	var saved []byte
	if err = json.Unmarshal(p.Value, &value); err == nil {
		saved, err = json.Marshal(value)
	}
	if err == nil && sameJSON(p.Value, saved) {
		return value, nil
	}
	again := *p.Begun
	again.ID, again.Repeat, again.Refused = r.callID(p.Name), false, "the program saves another JSON form of the result of the call, such as "+formOf[T]()
	r.saved = r.saved.without(p.Name).begun(again)
	return *new(T), fmt.Errorf("phase %q: %w: the program has refused the value that an operator has stored for the call: %s", p.Name, ErrUnknown, again.Refused)
}

// sameJSON reports whether a and b are the same JSON value.
func sameJSON(a, b []byte) bool {
	x, errX := canonical(a)
	y, errY := canonical(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

func canonical(text []byte) ([]byte, error) {
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

// formOf returns the JSON of an empty value of a type, to show the names of its fields.
func formOf[T any]() (form string) {
	defer func() {
		if recover() != nil {
			form = fmt.Sprintf("a %T", *new(T))
		}
	}()
	b, err := json.Marshal(*new(T))
	if err != nil || string(b) == "null" {
		return fmt.Sprintf("a %T", *new(T))
	}
	return string(b)
}
