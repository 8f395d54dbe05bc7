package inbox

import (
	"context"
	"strings"
	"time"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/sql/letter"
	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// Sighting is the state of an event in one inbox of a database, in a form for people to read.
type Sighting struct {
	EventID, Consumer, Source string

	State      State     // StateApplied, StateParked, StateFailing or StateDeadLettered
	ReceivedAt time.Time // zero if the time is not known
	AppliedAt  time.Time // zero if the time is not known

	// ByNumber says that the state was derived from the Seq of the message, because an ordered inbox stores
	// no IDs.
	ByNumber bool

	Letter string // Letter is the UID of the newest dead letter of the event; "" if the event has no dead letter.

	Failing Failing // With StateFailing and StateParked, Failing contains the failed attempts of the message. If the ID of the message was deleted after Config.Retain, the message may have been applied after the attempts in Failing.
}

// mostInboxes limits the number of pairs of consumer and source that Find searches.
const mostInboxes = 200

// Find returns the states of at most 64 events in the inboxes of a database, by the IDs of the messages. If the
// field Source of a message is set, Find searches only this source. If Source, Topic, Key and Seq of a message
// are set, Find also searches inboxes whose Config.Order is InOrder or LatestVersion. If the ID of a message is
// empty, Find searches only inboxes with InOrder or LatestVersion, and looks for an inbox that has applied or
// parked the Seq of the message. Find makes two or three look-ups for each consumer and source, each by an index.
// Find searches only the first 200 pairs of consumer and source.
func Find(ctx context.Context, db sqlplane.Database, events ...message.Message) (list []Sighting, err error) {
	f := finding{db: db, at: map[sighted]*Sighting{}}
	if len(events) == 0 {
		return nil, nil
	}
	events = events[:min(len(events), 64)]
	places, err := f.places(ctx, events)
	if err == nil {
		err = f.parked(ctx, events)
	}
	for _, p := range places {
		if err == nil {
			err = f.byID(ctx, p, events)
		}
		if err == nil {
			err = f.letters(ctx, p, events)
		}
		if err == nil {
			err = f.byNumber(ctx, p, events)
		}
	}
	if err == nil {
		err = f.failing(ctx, events)
	}
	if err != nil {
		return nil, err
	}
	for _, s := range f.found {
		list = append(list, *s)
	}
	return list, nil
}

// inboxOf is a consumer and one source of its messages.
type inboxOf struct{ consumer, source string }

// sighted identifies a sighting.
type sighted struct {
	inboxOf
	event string
}

// finding holds the state of one call of [Find].
type finding struct {
	db    sqlplane.Database
	found []*Sighting
	at    map[sighted]*Sighting
}

func (f *finding) query(ctx context.Context, query string, args []any, each func(sqlplane.Row) error) error {
	return f.db.Pool().Query(ctx, store.Statement{SQL: dialect.Text(f.db.Dialect(), query), Args: args}, each)
}

// of returns the sighting of an event in an inbox. It adds a new sighting if the event has none.
func (f *finding) of(p inboxOf, event string) *Sighting {
	name := sighted{p, event}
	if f.at[name] == nil {
		f.at[name] = &Sighting{EventID: event, Consumer: p.consumer, Source: p.source}
		f.found = append(f.found, f.at[name])
	}
	return f.at[name]
}

// places returns the pairs of consumer and source that may have handled the events.
func (f *finding) places(ctx context.Context, events []message.Message) (list []inboxOf, err error) {
	only := map[string]bool{} // sources
	for _, m := range events {
		only[m.Source] = true
	}
	seen := map[inboxOf]bool{}
	for _, table := range []string{"once_inbox", "once_inbox_position"} {
		err := f.each(ctx, "select min(consumer) from "+table+" where consumer > ?", nil, func(consumer string) error {
			return f.each(ctx, "select min(source) from "+table+" where consumer = ? and source > ?", []any{consumer}, func(source string) error {
				// An event without a source may belong to any source.
				if p := (inboxOf{consumer, source}); !seen[p] && (only[""] || only[source]) {
					seen[p] = true
					list = append(list, p)
				}
				return nil
			})
		})
		if err != nil {
			return nil, err
		}
	}
	return list[:min(len(list), mostInboxes)], nil
}

// each calls do with each value that a query returns, in ascending order. The query returns the smallest value
// that is greater than its last argument.
func (f *finding) each(ctx context.Context, query string, args []any, do func(string) error) error {
	last := ""
	// One look-up for each value, because "distinct" would read the whole index.
	for range mostInboxes {
		var next *string
		// The capacity of args is cut, so that append does not write into the slice of the caller.
		err := f.query(ctx, query, append(args[:len(args):len(args)], last), func(row sqlplane.Row) error { return row.Scan(&next) })
		if err != nil || next == nil {
			return err
		}
		last = *next
		if err := do(last); err != nil {
			return err
		}
	}
	return nil
}

// among returns a condition on event_id, and all arguments of the query: args, followed by the IDs of the events.
func among(events []message.Message, args ...any) (condition string, all []any) {
	for _, m := range events {
		args = append(args, m.ID)
	}
	return "event_id in (?" + strings.Repeat(", ?", len(events)-1) + ")", args
}

// byID finds the events whose IDs an inbox has stored.
func (f *finding) byID(ctx context.Context, p inboxOf, events []message.Message) error {
	where, args := among(events, p.consumer, p.source)
	return f.query(ctx, "select event_id, received_at, processed_at from once_inbox where consumer = ? and source = ? and "+where, args, func(row sqlplane.Row) error {
		var id string
		var received, processed dialect.Time
		if err := row.Scan(&id, &received, &processed); err != nil {
			return err
		}
		s := f.of(p, id)
		s.ReceivedAt, s.AppliedAt, s.State = time.Time(received), time.Time(processed), StateApplied
		if s.AppliedAt.IsZero() { // the row stays while its dead letter waits
			s.State = StateDeadLettered
		}
		return nil
	})
}

// parked finds the events that are parked in any inbox.
func (f *finding) parked(ctx context.Context, events []message.Message) error {
	where, args := among(events)
	return f.query(ctx, "select consumer, source, event_id, parked_at from once_inbox_parked where "+where, args, func(row sqlplane.Row) error {
		var p inboxOf
		var id string
		var at dialect.Time
		if err := row.Scan(&p.consumer, &p.source, &id, &at); err != nil {
			return err
		}
		if only := sourceOf(events, id); only != "" && only != p.source {
			return nil
		}
		s := f.of(p, id)
		s.ReceivedAt, s.State = time.Time(at), StateParked
		return nil
	})
}

// sourceOf returns the source of the event with this ID, or "" if the caller does not know it.
func sourceOf(events []message.Message, id string) string {
	for _, m := range events {
		if m.ID == id {
			return m.Source
		}
	}
	return ""
}

// letters finds the dead letters of the events. A database without tables for dead letters has none.
func (f *finding) letters(ctx context.Context, p inboxOf, events []message.Message) error {
	where, args := among(events, letter.OriginInbox, p.consumer, p.source)
	err := f.query(ctx, "select event_id, uid, state, dead_at from once_deadletter where origin = ? and consumer = ? and source = ? and "+where+" order by uid", args, func(row sqlplane.Row) error {
		var id, uid, state string
		var at dialect.Time
		if err := row.Scan(&id, &uid, &state, &at); err != nil {
			return err
		}
		s := f.of(p, id)
		s.Letter = uid
		// The newest letter counts, and the letters are read in the order of their UIDs.
		if state == letter.StateDead || s.State == "" {
			s.State = StateDeadLettered
		}
		// A letter without a row in once_inbox tells at least when the message had arrived.
		if s.ReceivedAt.IsZero() {
			s.ReceivedAt = time.Time(at)
		}
		if state == letter.StateApplied && s.AppliedAt.IsZero() {
			s.State = StateApplied
		}
		return nil
	})
	if sqlguard.IsMissing(err) {
		return nil
	}
	return err
}

// byNumber finds the events that an ordered inbox has applied. Such an inbox stores no IDs, so the Seq of
// the event is compared with the position of its key.
func (f *finding) byNumber(ctx context.Context, p inboxOf, events []message.Message) error {
	for _, m := range events {
		if m.Key == "" || m.Seq == 0 || m.Source != "" && m.Source != p.source || f.at[sighted{p, m.ID}] != nil {
			continue
		}
		applied, err := f.isBehind(ctx, p, m)
		if err != nil {
			return err
		}
		switch {
		case applied:
			s := f.of(p, m.ID)
			s.State, s.ByNumber = StateApplied, true
		case m.ID == "":
			if err := f.parkedByNumber(ctx, p, m); err != nil {
				return err
			}
		}
	}
	return nil
}

// parkedByNumber finds an event of which only the Seq is known, if it is parked. The sighting has its ID.
func (f *finding) parkedByNumber(ctx context.Context, p inboxOf, m message.Message) error {
	query := "select event_id, parked_at from once_inbox_parked where consumer = ? and source = ? and topic = ? and KEY = ? and seq = ?"
	return f.query(ctx, query, []any{p.consumer, p.source, m.Topic, m.Key, m.Seq}, func(row sqlplane.Row) error {
		var id string
		var at dialect.Time
		if err := row.Scan(&id, &at); err != nil {
			return err
		}
		s := f.of(p, id)
		s.ReceivedAt, s.State, s.ByNumber = time.Time(at), StateParked, true
		return nil
	})
}

// isBehind reports whether the position of the key of a message has reached the Seq of this message.
func (f *finding) isBehind(ctx context.Context, p inboxOf, m message.Message) (is bool, err error) {
	err = f.query(ctx, "select seq from once_inbox_position where consumer = ? and source = ? and topic = ? and KEY = ?", []any{p.consumer, p.source, m.Topic, m.Key}, func(row sqlplane.Row) error {
		var seq int64
		err := row.Scan(&seq)
		is = seq >= m.Seq
		return err
	})
	return is, err
}

// failing finds the events for which only failed attempts are stored. An ordered inbox may have
// applied such an event since then; the position of the key shows this.
func (f *finding) failing(ctx context.Context, events []message.Message) error {
	attempts := map[sighted]message.Message{}
	err := f.each(ctx, "select min(consumer) from once_deadletter_attempt where origin = 'inbox' and consumer > ?", nil, func(consumer string) error {
		return f.each(ctx, "select min(source) from once_deadletter_attempt where origin = 'inbox' and consumer = ? and source > ?", []any{consumer}, func(source string) error {
			where, args := among(events, consumer, source)
			return f.query(ctx, "select event_id, topic, KEY, seq, attempt, at, error from once_deadletter_attempt where origin = 'inbox' and consumer = ? and source = ? and "+where+" order by attempt", args, func(row sqlplane.Row) error {
				var one scanned
				var m message.Message
				if err := row.Scan(&m.ID, &m.Topic, &m.Key, &m.Seq, &one.attempts, &one.at, &one.failure); err != nil {
					return err
				}
				name := sighted{inboxOf{consumer, source}, m.ID}
				one.event = &m.ID
				// A parked message stays parked while its attempts fail.
				if seen := f.at[name]; seen != nil && seen.State == StateParked {
					seen.Failing = one.failing()
				}
				if only := sourceOf(events, m.ID); only != "" && only != source || f.at[name] != nil && f.at[name].State != StateFailing {
					return nil
				}
				s := f.of(name.inboxOf, m.ID)
				s.State, s.Failing = StateFailing, one.failing()
				m.Source = source
				attempts[name] = m
				return nil
			})
		})
	})
	// A database without the table of attempts has no failed attempts.
	if sqlguard.IsMissing(err) {
		return nil
	}
	for name, m := range attempts {
		if err != nil || m.Key == "" || m.Seq < 1 {
			continue
		}
		var applied bool
		if applied, err = f.isBehind(ctx, name.inboxOf, m); applied {
			*f.at[name] = Sighting{EventID: m.ID, Consumer: name.consumer, Source: name.source, State: StateApplied, ByNumber: true}
		}
	}
	return err
}
