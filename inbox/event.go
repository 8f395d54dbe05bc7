package inbox

import (
	"context"
	"log/slog"
	"time"

	"github.com/oncelib/once/internal/base/outages"
	"github.com/oncelib/once/internal/base/traceparent"
	"github.com/oncelib/once/message"
)

// Outcome says why a message can be acknowledged.
type Outcome string

// These are the outcomes of a message. New outcomes may be added.
const (
	Applied      Outcome = "applied"       // this call has applied the message
	Duplicate    Outcome = "duplicate"     // the message was applied before
	Stale        Outcome = "stale"         // with LatestVersion: a later version was applied before
	Parked       Outcome = "parked"        // with InOrder: the message is stored, and is applied after the earlier messages of its key
	Skipped      Outcome = "skipped"       // the message is a marker, which replaces a skipped message: see message.TypeSkipped
	DeadLettered Outcome = "dead_lettered" // the message has become a dead letter, in this call or before, and waits for the decision of a person
)

// Result is the result of one message of a batch. If Err is nil, acknowledge the message.
type Result struct {
	Outcome Outcome
	Err     error

	// Wait is how long the transaction of the message took to begin. Wait is usually the wait for a connection
	// of the pool. On SQLite, Wait is the wait for the write lock. If the message needed several transactions,
	// Wait is the wait of the transaction that took longest to begin. Zero means that no transaction began.
	Wait time.Duration
}

// Observer receives the events of an inbox. The method Observe must return quickly. The trace of the message is
// in e.Message.Trace.
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// EventType is the type of an [Event]. New types may be added.
type EventType string

// The types from EventApplied to EventDeadLettered have the same names as the outcomes of a message.
const (
	EventApplied      EventType = "applied"
	EventDuplicate    EventType = "duplicate"
	EventStale        EventType = "stale"
	EventParked       EventType = "parked"
	EventSkipped      EventType = "skipped"
	EventDeadLettered EventType = "dead_lettered" // a message has become a dead letter; Err says why
	EventFailed       EventType = "failed"        // an attempt has failed; After is the pause before the next attempt
	EventGap          EventType = "gap"           // a key has waited for a missing message for longer than Config.GapAlarm; a message that has arrived and fails is not missing
	EventDatabase     EventType = "database"      // the database has failed; Run waits
	EventReusedSeq    EventType = "reused_seq"    // the message is dropped, because a message with another ID was applied with the same Seq before; an inbox sends EventReusedSeq instead of EventDuplicate or EventStale
	EventSameBody     EventType = "same_body"     // a message was applied whose payload another message of the same source also had: see Config.ReportSameBody
)

// State is the state of a message before or after an [Event] of the inbox.
type State string

// These are the states of a message.
const (
	StateNew          State = "new" // the inbox has no record of the message
	StateParked       State = "parked"
	StateFailing      State = "failing" // only in a Sighting: the message has arrived, its attempts have failed, and it is tried again
	StateDeadLettered State = "dead_lettered"
	StateApplied      State = "applied" // applied, or known to need no handler: a duplicate, a stale message, a marker
)

// Event is one event of an inbox.
type Event struct {
	Type     EventType
	Consumer string
	Message  message.Message // the message, without its payload
	From, To State           // the states of the message before and after the event
	Err      error
	Attempt  int           // with EventFailed, EventDeadLettered and EventGap: how many attempts have failed; 0 if the attempt of an EventFailed could not be stored
	After    time.Duration // with EventFailed: the pause before the next attempt
	Class    string        // with EventDeadLettered: the class of the dead letter
	Letter   string        // with EventDeadLettered: the UID of the dead letter, as the command "once deadletter show" expects it
	Gap      Gap           // with EventGap: the gap
	SameAs   string        // with EventSameBody: the ID of the other message
}

// Observers returns an observer that passes each event to each observer of list, in order.
func Observers(list ...Observer) Observer { return observers(list) }

type observers []Observer

func (o observers) Observe(ctx context.Context, e Event) {
	for _, each := range o {
		each.Observe(ctx, e)
	}
}

// Log returns an observer that writes events to l: dead letters and gaps at level Error, failures at Warn, all
// other events at Debug. While the database cannot be reached, the observer writes the same error at most once a
// minute, and the end of the outage at level Info. If l is nil, the observer writes to the logger that
// slog.Default() returns at the time of the event. docs/logs.md has the names of the attributes.
func Log(l *slog.Logger) Observer { return logObserver{l, new(outages.Log)} }

type logObserver struct {
	l       *slog.Logger
	outages *outages.Log
}

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
	switch e.Type { //nolint:exhaustive // the others do not prove that the database works
	case EventApplied, EventDuplicate, EventParked, EventDeadLettered:
		if lasted, over := o.outages.Works(e.Consumer, time.Now()); over {
			l.LogAttrs(ctx, slog.LevelInfo, "inbox: the database answers again", slog.String("consumer", e.Consumer), lasted)
		}
	}
	if !l.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{slog.String("consumer", e.Consumer)}
	if e.Type == EventDatabase {
		omitted, ok := o.outages.Fails(e.Consumer, e.Err, time.Now())
		if !ok {
			return
		}
		attrs = append(attrs, omitted...)
	}
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
	if e.Letter != "" {
		attrs = append(attrs, slog.String("letter", e.Letter))
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
