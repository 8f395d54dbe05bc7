package inbox

import (
	"context"
	"errors"

	"github.com/oncelib/once/message"
)

// Span describes, for a [Tracer], how a message is handled.
type Span struct {
	Consumer string
	Message  message.Message // the message, without its payload
	Outcome  EventType       // the outcome of the message, such as EventDuplicate, if no handler runs for the message; "" if a handler runs
}

// Tracer starts a span for each run of the handler, and for each message that is done without a handler.
type Tracer interface {
	// InboxSpan is called when a handler begins to run, and when a message needs no handler. The handler gets the
	// returned context. The inbox calls the function named end one time. The argument of end is the error of the
	// handler, or the error that made the message a dead letter. The span of Tracer does not contain the commit, because
	// the commit is part of the span of the inbox's operation.
	InboxSpan(ctx context.Context, s Span) (_ context.Context, end func(error))
}

var errNoReturn = errors.New("the handler has panicked or has ended its goroutine")

// traced runs the handler in a span of Config.Tracer.
func (in *Inbox[TX]) traced(ctx context.Context, tx TX, m message.Message, fn Handler[TX]) (err error) {
	if in.cfg.Tracer == nil {
		return fn(ctx, tx, m)
	}
	// A tracer must not keep payloads, which may contain personal data.
	told := m
	told.Payload = nil
	ctx, end := in.cfg.Tracer.InboxSpan(ctx, Span{Consumer: in.cfg.Consumer, Message: told})
	seen := errNoReturn // stays if fn panics or ends its goroutine
	defer func() { end(seen) }()
	err = fn(ctx, tx, m)
	seen = err
	return err
}

// traceEvent makes a span of Config.Tracer for a message without a run of the handler.
func (in *Inbox[TX]) traceEvent(ctx context.Context, e Event) {
	switch e.Type { //nolint:exhaustive // the others have a handler, or no message
	case EventDuplicate, EventStale, EventReusedSeq, EventParked, EventSkipped, EventDeadLettered:
		_, end := in.cfg.Tracer.InboxSpan(ctx, Span{Consumer: e.Consumer, Message: e.Message, Outcome: e.Type})
		if e.Type != EventDeadLettered { // only a dead letter is a failure; the errors of the other events are hints
			e.Err = nil
		}
		end(e.Err)
	}
}
