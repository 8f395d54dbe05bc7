package outbox

import (
	"context"
	"log/slog"
	"time"

	"github.com/oncelib/once/internal/base/outages"
	"github.com/oncelib/once/internal/base/traceparent"
	"github.com/oncelib/once/message"
)

// Observer receives the events of a relay. The method Observe must return quickly. The ctx of Observe has the
// values of the ctx of [Relay.Run], and is never cancelled. The trace of a message is in the field
// Message.Trace of the event.
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// EventType is the type of an [Event]. New types may be added.
type EventType string

const (
	EventDelivered   EventType = "delivered"   // the destination has confirmed a message
	EventFailed      EventType = "failed"      // a delivery of a message has failed; NextAt is the time of the next attempt
	EventStopped     EventType = "stopped"     // a message has failed for the last time, and the later messages of its key wait until a person decides. If the event has no message, a topic has so many failing messages that the relay reads no other messages of the topic
	EventUnavailable EventType = "unavailable" // the destination of a topic cannot be reached, and the topic waits. If the event has no topic, no destination can be reached, and the relay releases its share of the outbox to other processes
	EventDatabase    EventType = "database"    // the database has failed; the relay waits
	EventBacklog     EventType = "backlog"     // sent periodically, with the Backlog
	EventTaken       EventType = "taken"       // this process now delivers more or fewer of the parts into which the outbox is divided
)

// Event is one event of a relay.
type Event struct {
	Type    EventType
	Message message.Message // without its payload, and without headers if these cannot be decrypted; set with EventDelivered, EventFailed and EventStopped; with EventUnavailable, only the topic of Message is set
	Err     error
	NextAt  time.Time // the time of the next attempt
	Backlog Backlog   // set with EventBacklog
	Parts   int       // with EventTaken: the outbox is divided into parts, and Parts is the number of parts that this process delivers
}

// Backlog contains the number of messages that wait in the whole outbox, and the age of the oldest waiting
// message.
type Backlog struct {
	Messages int64         // the number of waiting messages; at most 100,000 are counted
	Oldest   time.Duration // the age of the oldest waiting message; 0 if no message waits
	Failing  int64         // the number of messages that have failed and are tried again; at most 100,000 are counted
	Stopped  int64         // the number of messages that wait for a person; at most 100,000 are counted
	Blocked  int64         // the number of keys whose first message is failing or stopped, so that later messages of the key wait

	// OldestSnapshot is the age of the oldest transaction that prevents the database from removing deleted
	// rows. While a transaction prevents the database from removing deleted rows, the delivery of keys with
	// many messages is slow. OldestSnapshot includes only transactions that the database role of the relay
	// may see. OldestSnapshot is 0 if no transaction prevents the removal of deleted rows, or if the database
	// is not PostgreSQL.
	OldestSnapshot time.Duration
}

// Observers returns an observer that passes each event to each observer of list, in order.
func Observers(list ...Observer) Observer { return observers(list) }

type observers []Observer

func (o observers) Observe(ctx context.Context, e Event) {
	for _, each := range o {
		each.Observe(ctx, e)
	}
}

// Log returns an observer that writes failures to l. The level is Error if an operator must act, and Warn
// otherwise. While the database or the destination of a topic cannot be reached, the observer writes the same
// error at most once a minute, and the end of the outage at level Info. An EventTaken is also written at level
// Info. If l is nil, the observer writes to the logger that slog.Default() returns at the time of the event.
// docs/logs.md has the names of the attributes.
func Log(l *slog.Logger) Observer { return logObserver{l, new(outages.Log)} }

// database is the name of the outages of the database in the log. A topic cannot have this name.
const database = "\x00database"

type logObserver struct {
	l       *slog.Logger
	outages *outages.Log
}

func (o logObserver) Observe(ctx context.Context, e Event) {
	l := o.l
	if l == nil {
		l = slog.Default()
	}
	level := slog.LevelWarn
	subject := database
	switch e.Type {
	case EventStopped:
		level = slog.LevelError
	case EventFailed, EventDatabase:
	case EventUnavailable:
		subject = e.Message.Topic
	case EventDelivered:
		if lasted, over := o.outages.Works(e.Message.Topic, time.Now()); over {
			l.LogAttrs(ctx, slog.LevelInfo, "outbox: the destination of the topic accepts messages again", slog.String("topic", e.Message.Topic), lasted)
		}
		fallthrough
	default: // no other event is possible without the database
		if lasted, over := o.outages.Works(database, time.Now()); over {
			l.LogAttrs(ctx, slog.LevelInfo, "outbox: the database answers again", lasted)
		}
		if e.Type == EventTaken {
			l.LogAttrs(ctx, slog.LevelInfo, "outbox: the number of parts that this process delivers has changed", slog.Int("parts", e.Parts))
		}
		return
	}
	attrs := []slog.Attr{slog.Any("error", e.Err)}
	if e.Type == EventDatabase || e.Type == EventUnavailable {
		omitted, ok := o.outages.Fails(subject, e.Err, time.Now())
		if !ok {
			return
		}
		attrs = append(attrs, omitted...)
	}
	if m := e.Message; e.Type == EventUnavailable {
		attrs = append(attrs, slog.String("topic", m.Topic))
	} else if m.ID != "" {
		attrs = append(attrs, slog.String("topic", m.Topic), slog.String("event_id", m.ID), slog.Int64("seq", m.Seq), slog.Int("attempt", m.Delivery))
		if hash := m.KeyHash(); hash != "" {
			attrs = append(attrs, slog.String("idempotency_key", hash))
		}
		if trace := traceparent.TraceID(m.Trace); trace != "" {
			attrs = append(attrs, slog.String("trace_id", trace))
		}
	}
	if !e.NextAt.IsZero() {
		attrs = append(attrs, slog.Time("next_at", e.NextAt))
	}
	l.LogAttrs(ctx, level, "outbox: "+string(e.Type), attrs...)
}
