package outbox

import (
	"context"

	"github.com/oncelib/once/message"
)

// Tracer starts a span for each call of Publish, or another thing that lasts as long.
type Tracer interface {
	// OutboxSpan is called before each call of Publish, with its messages. Publish has the context that it returns. end is called once, with
	// one error for each message, or nil if all were delivered. The messages are then the publisher's: it must not read them.
	OutboxSpan(ctx context.Context, messages []message.Message) (_ context.Context, end func(errs []error))
}

// traced starts the span of a call of Publish.
func (r *Relay) traced(ctx context.Context, messages []message.Message) (_ context.Context, end func(errs []error)) {
	if r.cfg.Tracer == nil {
		return ctx, func([]error) {}
	}
	return r.cfg.Tracer.OutboxSpan(ctx, messages)
}
