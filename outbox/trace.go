package outbox

import (
	"context"

	"github.com/oncelib/once/message"
)

// Tracer starts a span, or a similar object, for each call of Publish.
type Tracer interface {
	// OutboxSpan is called before each call of Publish, with the messages that Publish will get. Publish gets
	// the returned context. The function end is called one time, with one error for each message, or with nil
	// if all messages were delivered. The function end must not read the slice messages, because the slice
	// belongs to the publisher from the call of Publish on.
	OutboxSpan(ctx context.Context, messages []message.Message) (_ context.Context, end func(errs []error))
}

// traced starts the span of a call of Publish.
func (r *Relay) traced(ctx context.Context, messages []message.Message) (_ context.Context, end func(errs []error)) {
	if r.cfg.Tracer == nil {
		return ctx, func([]error) {}
	}
	return r.cfg.Tracer.OutboxSpan(ctx, messages)
}
