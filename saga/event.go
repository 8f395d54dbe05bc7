package saga

import (
	"context"
	"log/slog"
)

// Observer receives the events of a runner. Observe must be quick. Its ctx has the values of the context of the saga, and is never cancelled.
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// EventType is the type of an [Event]. The set may grow.
type EventType string

const (
	EventDefined     EventType = "defined"     // a runner was made for a definition, or for a step of it: then Step is its name
	EventCompleted   EventType = "completed"   // a saga has ended with all its effects; no event comes if the answer to that commit was lost
	EventCompensated EventType = "compensated" // a saga has ended, and its effects are undone; no event comes if the answer to that commit was lost
	EventStuck       EventType = "stuck"       // a person must decide about a saga; Err says why
	EventTurned      EventType = "turned"      // the decision to undo is stored; Err is the cause. [Runner.Cancel] gives no such event
	EventRetried     EventType = "retried"     // a step or its undo has failed, and is tried again
	EventTaken       EventType = "taken"       // this node goes on with a saga that waited, or whose node has died
	EventChanged     EventType = "changed"     // the taken saga was begun by another version of its definition
	EventLeft        EventType = "left"        // a saga cannot be run by this node, and is left to another one
	EventInterrupted EventType = "interrupted" // a run of a saga on this node was interrupted, because the node cannot write or has lost the saga
	EventDatabase    EventType = "database"    // the database has failed during a look for due sagas
)

// Event is one thing that has happened in a runner.
type Event struct {
	Type EventType
	Saga string // the name of its definition; "" with EventInterrupted and EventDatabase
	ID   ID
	Err  error

	Step    string // EventRetried, EventDefined: its name; "the flow" if no step has failed
	StepKey string // the key of DoKey
	Undo    bool   // its undo has failed
	Tries   int    // failed tries

	Was, Is string // EventChanged: fingerprints of both versions
}

// Observers returns an observer that passes each event to each of list, in order.
func Observers(list ...Observer) Observer { return observers(list) }

type observers []Observer

func (o observers) Observe(ctx context.Context, e Event) {
	for _, each := range o {
		each.Observe(ctx, e)
	}
}

// Log returns an observer that writes to l: at Error if a person must act, failures at Warn and another version at Info. nil is slog.Default(), as it
// is at the moment of the event. The names of the attributes are in docs/logs.md.
func Log(l *slog.Logger) Observer { return logObserver{l} }

type logObserver struct{ l *slog.Logger }

func (o logObserver) Observe(ctx context.Context, e Event) {
	var said string
	level, more := slog.LevelWarn, []slog.Attr{slog.Any("error", e.Err)}
	switch e.Type { //nolint:exhaustive // the others are in order
	case EventStuck:
		level, said, more = slog.LevelError, "a saga is stuck: a person decides", []slog.Attr{slog.Any("why", e.Err)}
	case EventRetried:
		said = "a step of a saga has failed and is tried again"
		if e.Undo {
			said = "the undo of a step of a saga has failed and is tried again"
		}
		more = append([]slog.Attr{slog.String("step", fullName(e.Step, e.StepKey)), slog.Int("tries", e.Tries)}, more...)
	case EventChanged:
		level, said = slog.LevelInfo, "a saga goes on with another version of its definition"
		more = []slog.Attr{slog.String("was", e.Was), slog.String("is", e.Is)}
	case EventLeft:
		said = "a saga cannot be run by this node and is left to another one"
	case EventInterrupted:
		said = "a saga was not run to its end on this node"
	case EventDatabase:
		said = "a look for sagas that are due has failed"
	default:
		return
	}
	var attrs []slog.Attr
	if e.Saga != "" {
		attrs = append(attrs, slog.String("saga", e.Saga))
	}
	if e.Type != EventDatabase {
		attrs = append(attrs, slog.String("scope", e.ID.store().Scope), slog.String("key", e.ID.Key))
	}
	l := o.l
	if l == nil {
		l = slog.Default()
	}
	l.LogAttrs(ctx, level, said, append(attrs, more...)...)
}
