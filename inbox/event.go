package inbox

import (
	"context"
	"log/slog"
	"time"

	"github.com/oncelib/once/internal/base/traceparent"
	"github.com/oncelib/once/message"
)

// Outcome is the outcome of a message that must be acknowledged.
type Outcome string

// The outcomes. The set may grow.
const (
	Applied      Outcome = "applied"       // by this call
	Duplicate    Outcome = "duplicate"     // it was applied before
	Stale        Outcome = "stale"         // LatestVersion: a later version was applied before
	Parked       Outcome = "parked"        // InOrder: it is stored, and is applied later in its turn
	Skipped      Outcome = "skipped"       // it is a marker: see message.TypeSkipped
	DeadLettered Outcome = "dead_lettered" // it is given up, now or before, and waits for a person
)

// Result is the result of one message of a batch. If Err is nil, acknowledge the message.
type Result struct {
	Outcome Outcome
	Err     error

	// Wait is how long the transaction of the message took to begin: mostly, the wait for a connection of the pool; on SQLite, for the lock of the
	// writer. If the message ran in several transactions, it is the longest wait. Zero means that no transaction began.
	Wait time.Duration
}

// Observer receives the events of an inbox. Observe must be quick. Message.Trace is the trace of a message.
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// EventType is the type of an [Event]. The set may grow.
type EventType string

// The events of messages have the words of their outcomes.
const (
	EventApplied      EventType = "applied"
	EventDuplicate    EventType = "duplicate"
	EventStale        EventType = "stale"
	EventParked       EventType = "parked"
	EventSkipped      EventType = "skipped"
	EventDeadLettered EventType = "dead_lettered" // a message is given up; Err says why
	EventFailed       EventType = "failed"        // an attempt has failed; After is the pause before the next one
	EventGap          EventType = "gap"           // a key has waited for a missing message for longer than Config.GapAlarm; a message that fails is not missing
	EventDatabase     EventType = "database"      // the database has failed; Run waits
	EventReusedSeq    EventType = "reused_seq"    // instead of duplicate or stale: the message is dropped because another message was applied with its Seq
	EventSameBody     EventType = "same_body"     // a message was applied whose payload another message of its source had as well: see Config.ReportSameBody
)

// State is the state of a message before and after an event.
type State string

// The states.
const (
	StateNew          State = "new" // the inbox does not know it
	StateParked       State = "parked"
	StateFailing      State = "failing" // of a Sighting: it has come, and is tried again
	StateDeadLettered State = "dead_lettered"
	StateApplied      State = "applied" // applied, or known to be done: a duplicate, a stale message, a marker
)

// Event is one thing that has happened to an inbox.
type Event struct {
	Type     EventType
	Consumer string
	Message  message.Message // without its payload
	From, To State           // of the message
	Err      error
	Attempt  int           // EventFailed, EventDeadLettered, EventGap: number of failed attempts
	After    time.Duration // EventFailed: until the next attempt
	Class    string        // EventDeadLettered: of the dead letter
	Gap      Gap           // EventGap
	SameAs   string        // EventSameBody: the ID of the other message
}

// Observers returns an observer that passes each event to each of list, in order.
func Observers(list ...Observer) Observer { return observers(list) }

type observers []Observer

func (o observers) Observe(ctx context.Context, e Event) {
	for _, each := range o {
		each.Observe(ctx, e)
	}
}

// Log returns an observer that writes to l: dead letters and gaps at Error, failures at Warn, all other events at Debug. nil is slog.Default(), as it
// is at the moment of the event. The names of the attributes are in docs/logs.md.
func Log(l *slog.Logger) Observer { return logObserver{l} }

type logObserver struct{ l *slog.Logger }

func (o logObserver) Observe(ctx context.Context, e Event) {
	level := slog.LevelDebug
	switch e.Type {
	case EventDeadLettered, EventGap:
		level = slog.LevelError
	case EventFailed, EventDatabase, EventSameBody, EventReusedSeq:
		level = slog.LevelWarn
	}
	l := o.l
	if l == nil {
		l = slog.Default()
	}
	if !l.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{slog.String("consumer", e.Consumer)}
	if m := e.Message; m.ID != "" {
		attrs = append(attrs, slog.String("event_id", m.ID), slog.String("source", m.Source), slog.String("topic", m.Topic),
			slog.String("key", m.Key), slog.Int64("seq", m.Seq), slog.String("from_state", string(e.From)), slog.String("to_state", string(e.To)))
		if hash := m.KeyHash(); hash != "" {
			attrs = append(attrs, slog.String("idempotency_key", hash))
		}
		if trace := traceparent.TraceID(m.Trace); trace != "" {
			attrs = append(attrs, slog.String("trace_id", trace))
		}
	}
	if e.Type == EventGap {
		g := e.Gap
		attrs = append(attrs, slog.String("source", g.Source), slog.String("topic", g.Topic), slog.String("key", g.Key),
			slog.Int64("missing_seq", g.Seq), slog.Int64("parked", g.Parked), slog.Time("since", g.Since))
	}
	if e.Attempt > 0 {
		attrs = append(attrs, slog.Int("attempt", e.Attempt))
	}
	if e.SameAs != "" {
		attrs = append(attrs, slog.String("same_as", e.SameAs))
	}
	if e.Class != "" {
		attrs = append(attrs, slog.String("class", e.Class))
	}
	if e.After > 0 {
		attrs = append(attrs, slog.Duration("after", e.After))
	}
	if e.Err != nil {
		attrs = append(attrs, slog.Any("error", e.Err))
	}
	l.LogAttrs(ctx, level, "inbox: "+string(e.Type), attrs...)
}

// tell sends an event to the observer.
func (in *Inbox[TX]) tell(ctx context.Context, e Event) {
	e.Consumer, e.Message.Payload = in.cfg.Consumer, nil
	in.cfg.Observer.Observe(ctx, e)
	if in.cfg.Tracer != nil {
		in.traceEvent(ctx, e)
	}
}
