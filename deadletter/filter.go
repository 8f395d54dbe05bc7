package deadletter

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/sql/letter"
	"github.com/oncelib/once/store/sqlplane"
)

// DefaultLimit is the default of Filter.Limit.
const DefaultLimit = 50

// Filter selects letters. The zero value selects all letters in StateDead.
type Filter struct {
	UID      string `json:"uid,omitempty"`
	Origin   string `json:"origin,omitempty"` // "inbox" or "outbox"
	Consumer string `json:"consumer,omitempty"`
	Source   string `json:"source,omitempty"`
	EventID  string `json:"event_id,omitempty"`
	Topic    string `json:"topic,omitempty"`
	Key      string `json:"key,omitempty"`
	Type     string `json:"type,omitempty"`
	Class    string `json:"class,omitempty"`
	Cause    string `json:"cause,omitempty"` // the Cause of a [Group], as [Letters.Groups] returns it

	Since  time.Time `json:"since,omitzero"`  // letters that became dead at this time or later
	Before time.Time `json:"before,omitzero"` // letters that became dead before this time

	State State  `json:"-"` // default: StateDead. Redrive and Discard always select letters in StateDead
	After string `json:"-"` // for List: the result next of the previous page
	Limit int    `json:"-"` // for List and Groups: the largest length of the result; default 50
	Most  int    `json:"-"` // for List, Count, Groups and a dry run: the largest number of letters in State that are read, the oldest letter first; 0 means that all letters are read
}

// where returns the condition of f on once_deadletter, and its arguments.
func (f Filter) where(d sqlplane.Dialect) (text string, args []any, err error) {
	switch f.State {
	case "":
		f.State = StateDead
	case StateDead, StateApplied, StateStale, StateDiscarded:
	default:
		return "", nil, fmt.Errorf("deadletter: the state %q does not exist. Try: dead, applied, stale or discarded", f.State)
	}
	switch f.Origin {
	case "", letter.OriginInbox, letter.OriginOutbox:
	default:
		return "", nil, fmt.Errorf("deadletter: the origin %q does not exist. Try: inbox or outbox", f.Origin)
	}
	text, args = "state = ?", []any{string(f.State)}
	for _, c := range [...]struct{ column, value string }{
		{"uid", f.UID}, {"origin", f.Origin}, {"consumer", f.Consumer}, {"source", f.Source}, {"event_id", f.EventID}, {"topic", f.Topic},
		{"KEY", f.Key}, {"event_type", f.Type}, {"class", f.Class}, {"cause", f.Cause},
	} {
		if c.value != "" {
			text, args = text+" and "+c.column+" = ?", append(args, c.value)
		}
	}
	if !f.Since.IsZero() {
		text, args = text+" and dead_at >= ?", append(args, dialect.StoredTime(d, f.Since))
	}
	if !f.Before.IsZero() {
		text, args = text+" and dead_at < ?", append(args, dialect.StoredTime(d, f.Before))
	}
	return text, args, nil
}

// table returns the table among whose letters f chooses, and its arguments. The table has all letters, or the oldest f.Most letters of a state:
// for a condition that few letters meet, a database would otherwise read all letters.
func (f Filter) table() (text string, args []any) {
	if f.Most <= 0 || f.UID != "" {
		return "once_deadletter", nil
	}
	if f.State == "" {
		f.State = StateDead
	}
	return "(select uid, origin, consumer, source, event_id, topic, KEY, event_type, class, cause, state, first_failed_at, dead_at, redrive_at from once_deadletter where state = ? order by uid limit ?) d",
		[]any{string(f.State), int64(f.Most)}
}

// String describes the filter in words, for the entries in the audit (the table once_audit).
func (f Filter) String() string {
	b, err := json.Marshal(f)
	if err != nil || string(b) == "{}" {
		return "all letters"
	}
	return "letters " + string(b)
}
