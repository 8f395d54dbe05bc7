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

// system is messaging.system of messages that no broker carries.
const system = "once"

// maxLinks is how many links the SDK keeps by default.
const maxLinks = 128

// outcomeKey is what has become of a message.
const outcomeKey = attribute.Key("once.outcome")

// Publisher returns a publisher that makes a span "send {topic}" for each call of Publish of another one. It links to the producers of the
// messages, the contexts of outbox.Config.Trace: to those of the first 128. broker is the messaging.system, such as "kafka", "nats" or
// "rabbitmq"; "" is "once", for messages that no broker carries.
func (t *Telemetry) Publisher(p outbox.Publisher, broker string) outbox.Publisher {
	return outbox.PublisherFunc(func(ctx context.Context, messages []message.Message) []error {
		if len(messages) == 0 {
			return p.Publish(ctx, messages)
		}
		topic, traces, ids := messages[0].Topic, make([]string, len(messages)), make([]string, len(messages))
		for i := range messages { // they are the publisher's then
			traces[i], ids[i] = messages[i].Trace, messages[i].ID
		}
		attrs := append(messaging("send", topic, broker), semconv.MessagingOperationTypeSend)
		if len(messages) == 1 {
			attrs = append(attrs, semconv.MessagingMessageID(ids[0]), attemptKey.Int(messages[0].Delivery))
		} else {
			attrs = append(attrs, semconv.MessagingBatchMessageCount(len(messages)))
		}
		ctx, span := t.tracer.Start(ctx, "send "+topic, trace.WithSpanKind(trace.SpanKindClient), trace.WithLinks(links(traces[:min(len(traces), maxLinks)]...)...), trace.WithAttributes(attrs...))
		defer span.End()
		errs := p.Publish(ctx, messages)
		failed := false
		for i, err := range errs {
			if err == nil || i >= len(ids) {
				continue
			}
			span.AddEvent("once.outbox.failed", trace.WithAttributes(semconv.MessagingMessageID(ids[i]), errorKey.String(err.Error())))
			if !failed {
				failed = true
				span.SetAttributes(errorTypeOf(err))
				span.SetStatus(codes.Error, err.Error())
			}
		}
		return errs
	})
}

// errorTypeOf is the error.type of a delivery: what the error means for the message, or its Go type if it says nothing.
func errorTypeOf(err error) attribute.KeyValue {
	switch {
	case outbox.IsUnavailable(err):
		return semconv.ErrorTypeKey.String("unavailable")
	case retry.IsPermanent(err):
		return semconv.ErrorTypeKey.String("permanent")
	}
	return semconv.ErrorType(err)
}

// Handler returns a handler for the messages of an inbox that makes a span "process {topic}" for each run of fn. It is a child of the span in the
// context, and links to the producer of the message: Message.Trace. The commit of the message is not in it: it is in the operation of the
// inbox, if t observes the engine. broker is the messaging.system that the messages come from: see [Telemetry.Publisher].
func Handler[TX any](t *Telemetry, in *inbox.Inbox[TX], fn inbox.Handler[TX], broker string) inbox.Handler[TX] {
	consumer := in.Config().Consumer
	return func(ctx context.Context, tx TX, m message.Message) error {
		ctx, span := t.process(ctx, consumer, broker, &m)
		defer span.End()
		err := fn(ctx, tx, m)
		if err != nil {
			fail(span, err)
		}
		return err
	}
}

// process starts the span of a message that was received.
func (t *Telemetry) process(ctx context.Context, consumer, broker string, m *message.Message) (context.Context, trace.Span) {
	attrs := append(messaging("process", m.Topic, broker), semconv.MessagingOperationTypeProcess,
		semconv.MessagingConsumerGroupName(consumer), semconv.MessagingMessageID(m.ID))
	if m.Delivery > 0 {
		attrs = append(attrs, attemptKey.Int(m.Delivery))
	}
	return t.tracer.Start(ctx, "process "+m.Topic, //nolint:spancheck // the caller ends it
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithLinks(links(m.Trace)...), trace.WithAttributes(attrs...))
}

func messaging(operation, topic, broker string) []attribute.KeyValue {
	return []attribute.KeyValue{
		semconv.MessagingSystemKey.String(cmp.Or(broker, system)), semconv.MessagingOperationName(operation), semconv.MessagingDestinationName(topic),
	}
}

// Inbox returns the observer of an inbox. It records the instruments, and makes a span "process {topic}" of a message that no handler runs
// for: a duplicate, say. That of another message is one of [Handler]. broker is the messaging.system that the messages come from: see
// [Telemetry.Publisher].
func (t *Telemetry) Inbox(broker string) inbox.Observer { return inboxObserver{t, broker} }

type inboxObserver struct {
	of     *Telemetry
	broker string
}

// Observe implements [inbox.Observer].
func (o inboxObserver) Observe(ctx context.Context, e inbox.Event) {
	inbox.Metrics(o.of).Observe(ctx, e)
	switch e.Type {
	case inbox.EventDuplicate, inbox.EventStale, inbox.EventReusedSeq, inbox.EventParked, inbox.EventSkipped, inbox.EventDeadLettered:
		_, span := o.of.process(ctx, e.Consumer, o.broker, &e.Message)
		span.SetAttributes(outcomeKey.String(string(e.Type)))
		if e.Type == inbox.EventDeadLettered { // it waits for a person
			span.SetAttributes(semconv.ErrorType(e.Err))
			span.SetStatus(codes.Error, text(e.Err))
		}
		span.End()
	}
}
