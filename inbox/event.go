package inbox

import (
	"context"
	"log/slog"
	"time"

	"github.com/oncelib/once/internal/base/traceparent"
	"github.com/oncelib/once/message"
)

// Outcome is what has become of a message that is to be acknowledged.
type Outcome string

// The outcomes. The set may grow.
const (
	Applied      Outcome = "applied"       // by this call
	Duplicate    Outcome = "duplicate"     // it was applied before
	Stale        Outcome = "stale"         // LatestVersion: a later version was applied before
	Parked       Outcome = "parked"        // InOrder: it is stored, and is applied when its turn has come
	Skipped      Outcome = "skipped"       // it is a marker: see message.TypeSkipped
	DeadLettered Outcome = "dead_lettered" // it is given up, now or before, and waits for a person
)

// Result is what has become of one message of a batch. Err nil: acknowledge it.
type Result struct {
	Outcome Outcome
	Err     error

	// Wait is how long the transaction of the message took to begin: above all, the wait for a connection of the pool; on
	// SQLite, for the turn to write. Of several transactions it is the longest. Zero: none has begun.
	Wait time.Duration
}

// Observer is told what an inbox does. Observe must be quick. Message.Trace is the trace of a message.
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// EventType is what has happened. The set may grow.
type EventType string

// The events of messages have the words of their outcomes.
const (
	EventApplied      EventType = "applied"
	EventDuplicate    EventType = "duplicate"
	EventStale        EventType = "stale"
	EventParked       EventType = "parked"
	EventSkipped      EventType = "skipped"
	EventDeadLettered EventType = "dead_lettered" // a message is given up; Err says why
	EventFailed       EventType = "failed"        // an attempt has failed; After says how long to wait for the next one
	EventGap          EventType = "gap"           // a key waits for a message for longer than Config.GapAlarm, and no attempt of it fails: EventFailed tells that
	EventDatabase     EventType = "database"      // the database has failed; Run waits
	EventReusedSeq    EventType = "reused_seq"    // in place of duplicate or stale: the message is dropped because another one was applied with its Seq
	EventSameBody     EventType = "same_body"     // a message was applied, and another one of its source with the same payload, too: see Config.ReportSameBody
)

// State is where a message stands before and after an event.
type State string

// The states.
const (
	StateNew          State = "new" // the inbox does not know it
	StateParked       State = "parked"
	StateFailing      State = "failing" // of a Sighting: it has come, and is tried again
	StateDeadLettered State = "dead_lettered"
	StateApplied      State = "applied" // or known to be done: a duplicate, a stale one, a marker
)

// Event is one thing that has happened to an inbox.
type Event struct {
	Type     EventType
	Consumer string
	Message  message.Message // without its payload
	From, To State           // of the message
	Err      error
	Attempt  int           // EventFailed, EventDeadLettered, EventGap: how many have failed
	After    time.Duration // EventFailed: until the next attempt
	Class    string        // EventDeadLettered: of the dead letter
	Gap      Gap           // EventGap
	SameAs   string        // EventSameBody: the ID of the other message
}

// Observers returns an observer that tells each of list, in order.
func Observers(list ...Observer) Observer { return observers(list) }

type observers []Observer

func (o observers) Observe(ctx context.Context, e Event) {
	for _, each := range o {
		each.Observe(ctx, e)
	}
}

// Log returns an observer that writes to l: dead letters and gaps at Error, failures at Warn, all else
// at Debug. nil is slog.Default(), as it is at the moment of the event. The names of the attributes are in docs/logs.md.
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

// tell tells the observer.
func (in *Inbox[TX]) tell(ctx context.Context, e Event) {
	e.Consumer, e.Message.Payload = in.cfg.Consumer, nil
	in.cfg.Observer.Observe(ctx, e)
	if in.cfg.Tracer != nil {
		in.traceEvent(ctx, e)
	}
}
