package operate

import (
	"context"
	"slices"
	"time"

	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/engine/current"
	"github.com/oncelib/once/internal/owner"
	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// Event is a message that an operation has added to an outbox, or a webhook that the operation has sent. An Event has the state of the event
// in this database, in the form that people and scripts read.
type Event struct {
	ID       string    `json:"id"`
	Step     string    `json:"step,omitempty"` // the phase of leased work or the step of a saga that has added the event
	State    string    `json:"state"`          // one of EventWaiting to EventGone
	Topic    string    `json:"topic,omitempty"`
	Key      string    `json:"key,omitempty"`
	Seq      int64     `json:"seq,omitempty"`
	Type     string    `json:"type,omitempty"`
	Paused   bool      `json:"paused,omitempty"`
	Added    time.Time `json:"created_at,omitzero"`
	SentAt   time.Time `json:"sent_at,omitzero"`
	Attempts int       `json:"attempts,omitempty"` // the number of failed deliveries
	Error    string    `json:"error,omitempty"`    // why the last delivery has failed

	Letter    string         `json:"letter,omitempty"` // the UID of the event's dead letter in the outbox
	Inbox     []InboxEvent   `json:"inbox"`            // the states of the event in the inboxes of this database
	Sent      *Sent          `json:"sent,omitempty"`   // the deliveries of the event as a webhook; nil if the event is not a webhook
	Operation *OperationName `json:"operation,omitempty"`
}

// The constants are the states of an event.
const (
	EventWaiting   = "waiting"   // the event waits for its delivery
	EventBlocked   = "blocked"   // the event waits because an earlier message with the same ordering key has failed
	EventFailing   = "failing"   // a delivery has failed, and another one follows
	EventDead      = "dead"      // all deliveries have failed, and the event waits for an operator
	EventDelivered = "delivered" // the event was delivered, and is still stored
	EventUnwanted  = "unwanted"  // the event is a webhook that no endpoint receives
	EventGone      = "gone"      // the event is no longer stored: it was delivered or skipped
)

// OperationName names the operation that has added an event. Links contain the fields Scope and Key, and logs contain the field KeyHash.
type OperationName struct {
	Scope   string `json:"scope"`
	Key     string `json:"key"`      // the key as it is stored
	KeyHash string `json:"key_hash"` // the hash of the key, as in logs
}

// InboxEvent is the state of an event in an inbox.
type InboxEvent struct {
	EventID    string    `json:"event_id"`
	Consumer   string    `json:"consumer"`
	Source     string    `json:"source"`
	State      string    `json:"state"` // one of applied, parked, failing and dead_lettered
	ReceivedAt time.Time `json:"received_at,omitzero"`
	AppliedAt  time.Time `json:"applied_at,omitzero"`
	ByNumber   bool      `json:"by_number,omitempty"` // true if the state is known from the position of the key in an ordered inbox: this message or a later message was applied
	Letter     string    `json:"letter,omitempty"`    // the UID of the event's dead letter

	Failed   int64     `json:"failed_attempts,omitempty"` // the number of failed attempts, if State is failing
	FailedAt time.Time `json:"failed_at,omitzero"`
	Error    string    `json:"error,omitempty"` // why the last attempt has failed
}

// Trail has the effects of an operation: its events, and, if the operation is a saga, the steps of the saga.
type Trail struct {
	Events []Event           `json:"events"`
	Cut    bool              `json:"events_cut,omitempty"` // true if the operation may have added more events, because its record names only the first 64 events
	Steps  []saga.StepStatus `json:"steps,omitempty"`      // the steps of a saga, without inputs and results
}

// Trail returns the effects of an operation: its events with their states in the outbox and the inboxes of this database, and, if the operation is a
// saga, the steps of the saga. The record of the operation has the IDs of its events, so each event is looked up by an index. If the database has
// neither an outbox nor an inbox, no events are returned.
func (o *Operator) Trail(ctx context.Context, id store.ID) (t Trail, err error) {
	t.Events = []Event{}
	rec, err := o.Keys.Record(ctx, id)
	if err != nil || rec.State == store.StateAbsent {
		return t, err
	}
	if t.Steps, err = o.Keys.steps(ctx, id); err != nil {
		return t, err
	}
	progress, err := o.Keys.Progress(ctx, id)
	if err != nil {
		return t, err
	}
	step := map[string]string{}
	var ids []string
	for _, p := range progress.Phases {
		ids = append(ids, note(step, p.Phase, p.Events)...)
	}
	for _, s := range t.Steps {
		ids = append(ids, note(step, s.Step, s.Events)...)
	}
	ids = append(ids, rec.Result.Events...)
	// A record names only this many events, so others may exist.
	if t.Cut = len(ids) >= current.MaxEvents; t.Cut {
		ids = ids[:current.MaxEvents]
	}
	t.Events, err = o.events(ctx, ids)
	for i := range t.Events {
		t.Events[i].Step = step[t.Events[i].ID]
	}
	return t, err
}

// note records which step has added the events, and returns the IDs of the events.
func note(step map[string]string, name string, events []string) []string {
	for _, id := range events {
		step[id] = name
	}
	return events
}

// steps returns the steps of a saga without their inputs and results, or nil for other operations.
func (a *Keys) steps(ctx context.Context, id store.ID) ([]saga.StepStatus, error) {
	ops, err := a.operations()
	if owner.Of(id.Scope) != owner.Saga || err != nil {
		return nil, nil //nolint:nilerr // the store has no sagas
	}
	s, err := saga.StatusOf(ctx, ops, saga.ID{Tenant: id.Scope[len(owner.Saga):], Key: id.Key}, nil)
	if err != nil {
		return nil, err //nolint:wrapcheck // it is of package saga
	}
	return convert(s.Steps, func(s saga.StepStatus) saga.StepStatus { s.Input, s.Result = nil, nil; return s }), nil
}

// EventsByID returns the states of the events with these IDs, in the outbox and in the inboxes of this database.
func (o *Operator) EventsByID(ctx context.Context, ids ...string) ([]Event, error) {
	return o.events(ctx, ids)
}

func (o *Operator) events(ctx context.Context, ids []string) ([]Event, error) {
	list := []Event{}
	if len(ids) == 0 {
		return list, nil
	}
	stored, err := o.Outbox.box.ByID(ctx, ids...)
	// A database without an outbox can have an inbox, and the other way round.
	if err != nil && !sqlguard.IsMissing(err) {
		return nil, err //nolint:wrapcheck // it is of package outbox
	}
	var sought []message.Message
	for _, id := range ids {
		// An event that is found nowhere was delivered or skipped.
		e := Event{ID: id, State: EventGone, Inbox: []InboxEvent{}}
		m := message.Message{ID: id}
		if i := slices.IndexFunc(stored, func(s outbox.Entry) bool { return s.ID == id }); i >= 0 {
			e = eventOf(stored[i])
			m = stored[i].Message
		}
		list, sought = append(list, e), append(sought, m)
	}
	sent, err := o.Hooks.sentOf(ctx, ids)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if s := sent[list[i].ID]; s != nil {
			s.addTo(&list[i])
		}
	}
	seen, err := o.Inbox.Find(ctx, sought...)
	if err != nil && !sqlguard.IsMissing(err) {
		return nil, err
	}
	for i := range list {
		for _, s := range seen {
			if s.EventID == list[i].ID {
				list[i].Inbox = append(list[i].Inbox, s)
			}
		}
		if list[i].State != EventDead || list[i].Topic == "" { // only a message of the outbox has a dead letter
			continue
		}
		if list[i].Letter, err = o.Keys.letterOf(ctx, sought[i]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func eventOf(e outbox.Entry) Event {
	one := Event{
		ID: e.ID, Topic: e.Topic, Key: e.Key, Seq: e.Seq, Type: e.Type, Paused: e.Paused, Added: utc(e.CreatedAt), SentAt: utc(e.SentAt),
		Attempts: e.Attempts, Error: e.Error, State: string(e.State), Inbox: []InboxEvent{}, Operation: operationOf(e),
	}
	if e.State == outbox.StateStopped {
		one.State = EventDead
	}
	return one
}

// operationOf returns the name of the operation that has added a message, or nil if none is known.
func operationOf(e outbox.Entry) *OperationName {
	if e.OpKey == "" {
		return nil
	}
	return &OperationName{e.OpScope, e.OpKey, keyname.Hashes(e.OpKey)[0]}
}

// letterOf returns the UID of the dead letter of an outbox message, or "" if none exists. The query uses an index.
func (a *Keys) letterOf(ctx context.Context, m message.Message) (uid string, err error) {
	query := a.statement("select uid from once_deadletter where origin = 'outbox' and consumer = '' and source = ? and event_id = ?", m.Source, m.ID)
	err = a.db.Pool().Query(ctx, query, func(row sqlplane.Row) error { return row.Scan(&uid) })
	// A database without dead letters has no table for them.
	if sqlguard.IsMissing(err) {
		return "", nil
	}
	return uid, err
}

// Find returns the states of the given events in all inboxes of the database. The documentation of [inbox.Find] explains the result.
func (i *Inboxes) Find(ctx context.Context, events ...message.Message) ([]InboxEvent, error) {
	list, err := inbox.Find(ctx, i.db, events...)
	return convert(list, func(s inbox.Sighting) InboxEvent {
		return InboxEvent{s.EventID, s.Consumer, s.Source, string(s.State), utc(s.ReceivedAt), utc(s.AppliedAt), s.ByNumber, s.Letter, s.Failing.Attempts, utc(s.Failing.LastAt), s.Failing.Error}
	}), err //nolint:wrapcheck // it is of package inbox
}
