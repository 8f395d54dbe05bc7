package lease

import (
	"time"

	"github.com/oncelib/once/store"
)

// Begun is a call that was begun and whose outcome is not stored, for people who look it up at the service.
type Begun struct {
	Phase   string    `json:"phase"`
	Tx      bool      `json:"tx,omitempty"`   // it is no call but a phase of [Tx], which has ended its transaction itself: what it has written may stand
	Key     string    `json:"key"`            // that the service got: see [Key]; "" with Tx
	Repeats bool      `json:"repeats"`        // it can be made again under the same key: [SafeToRepeat], [DedupedFor]
	Until   time.Time `json:"until,omitzero"` // with Repeats: not later than this; zero: at any time
	Checked bool      `json:"checked"`        // the service can be asked: [Check]
}

// BegunOf returns the call of an operation that is running or unknown, nil if none was begun.
func BegunOf(id store.ID, rec store.Record) (*Begun, error) {
	s, err := decodeSaved(rec.Data)
	if err != nil || s.Call == nil {
		return nil, err
	}
	c := s.Call
	b := &Begun{Phase: c.Phase, Tx: c.Tx, Repeats: c.Repeat, Until: c.Until, Checked: c.Check}
	if !c.Tx {
		b.Key = Key(id.Scope, id.Key, c.Phase, s.generation(c.Phase))
	}
	return b, nil
}
