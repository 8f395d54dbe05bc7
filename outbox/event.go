package outbox

import (
	"context"
	"log/slog"
	"time"

	"github.com/oncelib/once/internal/base/traceparent"
	"github.com/oncelib/once/message"
)

// Observer receives the events of a relay. Observe must be quick. Its ctx has the values of the ctx of [Relay.Run], and is never cancelled;
// Message.Trace is the trace of a message.
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// EventType is the type of an [Event]. The set may grow.
type EventType string

const (
	EventDelivered   EventType = "delivered"   // a message was confirmed and is done
	EventFailed      EventType = "failed"      // one delivery has failed; NextAt says when it is tried again
	EventStopped     EventType = "stopped"     // a message is given up: its key waits for a person; without a message, a topic has too many failing messages, and no others of it are read
	EventUnavailable EventType = "unavailable" // the destination of a topic cannot be reached; the topic waits. Without a topic: no destination can be reached, and the relay releases its parts
	EventDatabase    EventType = "database"    // the database has failed; the relay waits
	EventBacklog     EventType = "backlog"     // sent from time to time, with the Backlog
	EventTaken       EventType = "taken"       // this process holds more or fewer parts than before
)

// Event is one thing that has happened to a relay.
type Event struct {
	Type    EventType
	Message message.Message // without its payload, and without headers if they cannot be decrypted; EventDelivered, EventFailed, EventStopped; only its topic: EventUnavailable
	Err     error
	NextAt  time.Time // of the next attempt
	Backlog Backlog   // EventBacklog
	Parts   int       // EventTaken: how many of the parts of the outbox this process holds
}

// Backlog has the numbers and ages of the waiting messages of the whole outbox.
type Backlog struct {
	Messages int64         // at most 100,000 are counted
	Oldest   time.Duration // age of the oldest message; 0 if no message waits
	Failing  int64         // messages that are tried again; at most 100,000 are counted
	Stopped  int64         // messages that wait for a person, at most 100,000 are counted
	Blocked  int64         // keys whose first message is failing or stopped: later ones wait for it

	// OldestSnapshot is the age of the oldest transaction that keeps dead rows from being removed, as far as the role of the relay may see other
	// transactions. Hot keys are slow meanwhile. 0 means that no such transaction exists, or that the database is not PostgreSQL.
	OldestSnapshot time.Duration
}

// Observers returns an observer that passes each event to each of list, in order.
func Observers(list ...Observer) Observer { return observers(list) }

type observers []Observer

func (o observers) Observe(ctx context.Context, e Event) {
	for _, each := range o {
		each.Observe(ctx, e)
	}
}

// Log returns an observer that writes failures to l: at Error if a person must act, else at Warn. nil is slog.Default(), as it is at the moment of
// the event. The names of the attributes are in docs/logs.md.
func Log(l *slog.Logger) Observer { return logObserver{l} }

type logObserver struct{ l *slog.Logger }

func (o logObserver) Observe(ctx context.Context, e Event) {
	level := slog.LevelWarn
	switch e.Type {
	case EventStopped:
		level = slog.LevelError
	case EventFailed, EventUnavailable, EventDatabase:
	default:
		return
	}
	attrs := []slog.Attr{slog.Any("error", e.Err)}
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
	l := o.l
	if l == nil {
		l = slog.Default()
	}
	l.LogAttrs(ctx, level, "outbox: "+string(e.Type), attrs...)
}
