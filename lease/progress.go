package lease

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/oncelib/once/store"
)

// Progress shows operators which phases of an operation have ended, and which call has no stored outcome.
type Progress struct {
	// Phases are the phases that have ended, in the order in which they ended. Phases stay
	// available after the operation has ended.
	Phases []Ended `json:"phases,omitempty"`

	// Call is a call that was begun and whose outcome is not stored. If the operation has ended and Call is
	// still set, a person has decided how the operation ends, without knowing the outcome of Call.
	Call *Begun `json:"call,omitempty"`

	// CallID identifies the decision that a person must make; pass CallID to Resolve in [Resolution.CallID].
	// CallID names the call whose outcome is unknown, or, if the operation has begun no call, the state of the
	// operation. If CallID is "", no decision is needed. CallID changes when a person has decided about the
	// call, even if the call is then made again.
	CallID string `json:"call_id,omitempty"`
}

// Ended is a phase that has ended.
type Ended struct {
	Phase   string `json:"phase"`
	Failure string `json:"failure,omitempty"` // the code of the failure with which the phase has ended
	ByHand  bool   `json:"by_hand,omitempty"` // a person has supplied the value: [Resolution.CallValue]

	Events []string `json:"events,omitempty"` // IDs of the messages that the phase's transaction has added to an outbox
}

// Begun is a call that was begun and whose outcome is not stored. Operators can use the fields of Begun to
// search for the call in the records of the service.
type Begun struct {
	Phase   string    `json:"phase"`
	Tx      bool      `json:"tx,omitempty"`      // Begun is not a call, but a phase of [InTx] whose function has ended its transaction itself: the writes of the phase may be committed
	Key     string    `json:"key"`               // the key that the service has received, see [Key]; "" if Tx is set
	Repeats bool      `json:"repeats"`           // the call can be made again under the same key: see [CallPolicy]
	Until   time.Time `json:"until,omitzero"`    // if Repeats is set, the last time at which the call can be made again; zero means at any time
	Checked bool      `json:"checked"`           // the program can ask the service for the outcome: see [Check] and [CallPolicy.CheckedFor]
	Refused string    `json:"refused,omitempty"` // why the program has rejected the [Resolution.CallValue] of a person
}

// ProgressOf returns the progress of the operation with the record rec.
func ProgressOf(id store.ID, rec store.Record) (p Progress, err error) {
	s, err := decodeSaved(rec.Data)
	if err != nil {
		return p, err
	}
	for _, e := range s.Phases {
		ended := Ended{Phase: e.Name, ByHand: e.ByHand, Events: e.Events}
		if e.Failure != nil {
			ended.Failure = e.Failure.Code
		}
		p.Phases = append(p.Phases, ended)
	}
	if c := s.Call; c != nil {
		p.Call = &Begun{Phase: c.Phase, Tx: c.Tx, Repeats: c.Repeat, Until: c.Until, Checked: c.checks(time.Now()), Refused: c.Refused}
		if !c.Tx {
			p.Call.Key = Key(id.Scope, id.Key, c.Phase, s.generation(c.Phase))
		}
	}
	if isUnknown(rec, s) {
		p.CallID = callID(rec, s)
	}
	return p, nil
}

// callID returns the ID of what a person must decide in a record with these phases.
func callID(rec store.Record, s saved) string {
	if s.Call != nil && s.Call.ID != "" {
		return s.Call.ID
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%x %d %d", rec.Nonce, rec.Fence, rec.Since.UnixMilli()))
	return hex.EncodeToString(sum[:4])
}
