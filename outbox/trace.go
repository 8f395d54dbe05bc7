package outbox

import (
	"context"

	"github.com/oncelib/once/message"
)

// Tracer starts a span, or something like a span, for each call of Publish.
type Tracer interface {
	// OutboxSpan is called before each call of Publish, with the messages of this call. Publish gets the
	// returned context. end is called once, with one error for each message, or with nil if all were delivered.
	// From then on, end must not read messages, because they belong to the publisher.
	OutboxSpan(ctx context.Context, messages []message.Message) (_ context.Context, end func(errs []error))
}

// traced starts the span of a call of Publish.
func (r *Relay) traced(ctx context.Context, messages []message.Message) (_ context.Context, end func(errs []error)) {
	if r.cfg.Tracer == nil {
		return ctx, func([]error) {}
	}
	return r.cfg.Tracer.OutboxSpan(ctx, messages)
}
