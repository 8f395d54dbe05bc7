package saga

import (
	"context"
	"log/slog"
	"time"

	"github.com/oncelib/once/internal/base/outages"
)

// Observer receives the events of a runner. The method Observe must return quickly. The ctx of Observe has
// the values of the context in which the saga runs, and is never cancelled.
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// EventType is the type of an [Event]. New types may be added.
type EventType string

const (
	EventDefined     EventType = "defined"     // a runner was made; the event is sent one time for each definition, with an empty Step, and one time for each step of each definition
	EventCompleted   EventType = "completed"   // a saga has ended with all its effects; the event is not sent if the answer to the last commit of the saga was lost
	EventCompensated EventType = "compensated" // a saga has ended, and its effects are undone; the event is not sent if the answer to the last commit of the saga was lost
	EventStuck       EventType = "stuck"       // a person must decide about a saga; Err says why
	EventTurned      EventType = "turned"      // the decision to undo the steps of a saga is stored; Err is the cause. [Runner.Cancel] does not cause this event
	EventRetried     EventType = "retried"     // a step or its undo has failed, and will be tried again
	EventHanging     EventType = "hanging"     // a step, an undo or a flow has not returned, although its context has ended; its saga no longer counts for Config.Concurrency
	EventTaken       EventType = "taken"       // this node has taken over a saga that waited, or whose node has died
	EventChanged     EventType = "changed"     // this node has taken over a saga that another version of its definition has begun
	EventLeft        EventType = "left"        // this node cannot run a saga, and leaves it to another node
	EventInterrupted EventType = "interrupted" // a run of a saga on this node was interrupted, because the node cannot write to the store, or because another node has taken the saga over
	EventDatabase    EventType = "database"    // the database has failed while the runner looked for due sagas
)

// Event is one event of a runner.
type Event struct {
	Type EventType
	Saga string // the name of the saga's definition; "" with EventInterrupted and EventDatabase
	ID   ID
	Err  error

	Step    string // with EventRetried, EventHanging and EventDefined: the name of the step; "the flow" if the event concerns no step
	StepKey string // the key that was passed to DoKey
	Undo    bool   // true if the undo of the step has failed or hangs, false if the step itself has failed or hangs
	Tries   int    // how many tries have failed

	Was, Is string // with EventChanged: the fingerprint of the version that has begun the saga, and the fingerprint of the version on this node
}

// Observers returns an observer that passes each event to each observer of list, in order.
func Observers(list ...Observer) Observer { return observers(list) }

type observers []Observer

func (o observers) Observe(ctx context.Context, e Event) {
	for _, each := range o {
		each.Observe(ctx, e)
	}
}

// Log returns an observer that writes events to l. Events after which a person must act are written at level Error,
// failures at level Warn, and an EventChanged at level Info. The same error of an EventDatabase is written at most
// once a minute, and the end of an outage of the database is written at level Info. If l is nil, the observer writes
// to the logger that slog.Default() returns at the time of the event. docs/logs.md has the names of the attributes.
func Log(l *slog.Logger) Observer { return logObserver{l, new(outages.Log)} }

type logObserver struct {
	l       *slog.Logger
	outages *outages.Log
}

func (o logObserver) Observe(ctx context.Context, e Event) {
	l := o.l
	if l == nil {
		l = slog.Default()
	}
	var said string
	level, more := slog.LevelWarn, []slog.Attr{slog.Any("error", e.Err)}
	switch e.Type { //nolint:exhaustive // the others are in order
	case EventStuck:
		level, said, more = slog.LevelError, "a saga is stuck until an operator decides", []slog.Attr{slog.Any("why", e.Err)}
	case EventRetried:
		said = "a step of a saga has failed and is tried again"
		if e.Undo {
			said = "the undo of a step of a saga has failed and is tried again"
		}
		more = append([]slog.Attr{slog.String("step", fullName(e.Step, e.StepKey)), slog.Int("tries", e.Tries)}, more...)
	case EventChanged:
		level, said = slog.LevelInfo, "a saga continues with another version of its definition"
		more = []slog.Attr{slog.String("was", e.Was), slog.String("is", e.Is)}
	case EventHanging:
		said = "a step of a saga still runs after its time limit, and another saga gets its place"
		if e.Undo {
			said = "the undo of a step of a saga still runs after its time limit, and another saga gets its place"
		}
		more = append([]slog.Attr{slog.String("step", fullName(e.Step, e.StepKey))}, more...)
	case EventLeft:
		said = "this process cannot run the saga, and leaves it to another process"
	case EventInterrupted:
		said = "a run of a saga was interrupted in this process, and continues later"
	case EventDatabase:
		said = "the runner could not read the due sagas from the database, and tries again later"
		omitted, ok := o.outages.Fails("", e.Err, time.Now())
		if !ok {
			return
		}
		more = append(more, omitted...)
	default: // no other event is possible without the database
		if lasted, over := o.outages.Works("", time.Now()); over {
			l.LogAttrs(ctx, slog.LevelInfo, "the runner reads the due sagas from the database again", lasted)
		}
		return
	}
	var attrs []slog.Attr
	if e.Saga != "" {
		attrs = append(attrs, slog.String("saga", e.Saga))
	}
	if e.Type != EventDatabase {
		attrs = append(attrs, slog.String("scope", e.ID.store().Scope), slog.String("key", e.ID.Key))
	}
	l.LogAttrs(ctx, level, said, append(attrs, more...)...)
}
