package onceotel

import (
	"cmp"
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/retry"
)

// system is the attribute messaging.system of messages that no broker carries.
const system = "once"

// maxLinks is how many links of a span the SDK keeps by default.
const maxLinks = 128

// outcomeKey is the outcome of a message.
const outcomeKey = attribute.Key("once.outcome")

// OutboxSpan implements [outbox.Tracer]. OutboxSpan starts a span with the name "send {topic}" for each call of Publish. The new span links to
// the spans in which the first 128 messages of the call were added to the outbox. The function outbox.Config.Trace gives the outbox the trace
// context to store with each message.
func (t *Telemetry) OutboxSpan(ctx context.Context, messages []message.Message) (_ context.Context, end func(errs []error)) {
	topic, traces, ids := messages[0].Topic, make([]string, len(messages)), make([]string, len(messages))
	for i := range messages { // copied, because Publish may change the messages
		traces[i], ids[i] = messages[i].Trace, messages[i].ID
	}
	attrs := append(t.messaging("send", topic), semconv.MessagingOperationTypeSend)
	if len(messages) == 1 {
		attrs = append(attrs, semconv.MessagingMessageID(ids[0]), attemptKey.Int(messages[0].Delivery))
	} else {
		attrs = append(attrs, semconv.MessagingBatchMessageCount(len(messages)))
	}
	ctx, span := t.tracer.Start(ctx, "send "+topic, trace.WithSpanKind(trace.SpanKindClient), trace.WithLinks(links(traces[:min(len(traces), maxLinks)]...)...), trace.WithAttributes(attrs...)) //nolint:spancheck // the end that is returned ends it
	//nolint:spancheck // so it does
	return ctx, func(errs []error) {
		failed := false
		for i, err := range errs {
			if err == nil {
				continue
			}
			span.AddEvent("once.outbox.failed", trace.WithAttributes(semconv.MessagingMessageID(ids[i]), errorKey.String(err.Error())))
			if !failed {
				failed = true
				span.SetAttributes(errorTypeOf(err))
				span.SetStatus(codes.Error, err.Error())
			}
		}
		span.End()
	}
}

// errorTypeOf returns the error.type of a delivery: the class of the error, or its Go type if it has no class.
func errorTypeOf(err error) attribute.KeyValue {
	switch {
	case outbox.IsUnavailable(err):
		return semconv.ErrorTypeKey.String("unavailable")
	case retry.IsPermanent(err):
		return semconv.ErrorTypeKey.String("permanent")
	}
	return semconv.ErrorType(err)
}

// InboxSpan implements [inbox.Tracer]. InboxSpan starts a span with the name "process {topic}" for each run of a handler, and for each
// message for which no handler runs, such as a duplicate. The new span is a child of the span in ctx, and links to the span of the sender,
// which is in Message.Trace.
func (t *Telemetry) InboxSpan(ctx context.Context, s inbox.Span) (_ context.Context, end func(error)) {
	attrs := append(t.messaging("process", s.Message.Topic), semconv.MessagingOperationTypeProcess,
		semconv.MessagingConsumerGroupName(s.Consumer), semconv.MessagingMessageID(s.Message.ID))
	if s.Message.Delivery > 0 {
		attrs = append(attrs, attemptKey.Int(s.Message.Delivery))
	}
	if s.Outcome != "" {
		attrs = append(attrs, outcomeKey.String(string(s.Outcome)))
	}
	ctx, span := t.tracer.Start(ctx, "process "+s.Message.Topic, //nolint:spancheck // the end that is returned ends it
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithLinks(links(s.Message.Trace)...), trace.WithAttributes(attrs...))
	return ctx, func(err error) { //nolint:spancheck // so it does
		if err != nil {
			fail(span, err)
		}
		span.End()
	}
}

func (t *Telemetry) messaging(operation, topic string) []attribute.KeyValue {
	return []attribute.KeyValue{
		semconv.MessagingSystemKey.String(cmp.Or(t.cfg.Broker, system)), semconv.MessagingOperationName(operation), semconv.MessagingDestinationName(topic),
	}
}
