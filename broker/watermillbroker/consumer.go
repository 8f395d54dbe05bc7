package watermillbroker

import (
	"context"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/oncelib/once/inbox"
	oncemessage "github.com/oncelib/once/message"
	"github.com/oncelib/once/message/cloudevent"
	"github.com/oncelib/once/retry"
)

// longestWait limits how long a failed message is held before it is given back. A broker delivers a message that is held for too long
// to another consumer.
const longestWait = 10 * time.Second

// Handler returns a handler for a Watermill router. The handler applies each message once with fn: the writes of fn, and a record which says that
// the message was applied, are committed in one transaction, and the message is acknowledged after the commit. The handler gives a failed message
// back to the broker (Nack) after a pause: see the package documentation.
//
//	router.AddConsumerHandler("billing", "refunds", subscriber, watermillbroker.Handler(in, book))
//	go in.Run(ctx, book)
func Handler[TX any](in *inbox.Inbox[TX], fn inbox.Handler[TX]) message.NoPublishHandlerFunc {
	return (&consumer{
		wait:   wait,
		refuse: in.Refuse,
		handle: func(ctx context.Context, m oncemessage.Message) (inbox.Outcome, error) { return in.Handle(ctx, m, fn) },
	}).consume
}

// Middleware returns a Watermill middleware with which a handler applies each message once. The handler gets its transaction from the function [Tx].
// The handler must not return messages, because the returned messages would be lost if the process ended after the commit. To send messages, the
// handler adds the messages to an outbox in the same transaction.
//
// The handler receives a Watermill message whose UUID is the ID of the event.
func Middleware[TX any](in *inbox.Inbox[TX]) message.HandlerMiddleware {
	return func(h message.HandlerFunc) message.HandlerFunc {
		consume := Handler(in, Apply[TX](h))
		return func(m *message.Message) ([]*message.Message, error) { return nil, consume(m) }
	}
}

// Apply converts the Watermill handler h to an [inbox.Handler]. The function [Middleware] uses Apply. Pass Apply(h) to [inbox.Inbox.Run] as well, so
// that the inbox also applies parked messages (messages that wait for an earlier message) and redriven dead letters with h.
func Apply[TX any](h message.HandlerFunc) inbox.Handler[TX] {
	return func(ctx context.Context, tx TX, m oncemessage.Message) error {
		event := oncemessage.Message{
			Topic: m.Topic, Key: m.Key, Type: m.Type, Source: m.Source, Payload: m.Payload, Headers: m.Headers, Trace: m.Trace,
			ID: m.ID, Seq: m.Seq, CreatedAt: m.CreatedAt,
		}
		produced, err := h(newMessage(context.WithValue(ctx, txKey[TX]{}, tx), &event))
		if err == nil && len(produced) > 0 {
			return retry.Permanent(fmt.Errorf("watermillbroker: the handler has returned %d messages to publish, which could be lost in a crash. Try: add them with outbox.Box.Add, in the transaction of watermillbroker.Tx", len(produced)))
		}
		return err
	}
}

type txKey[TX any] struct{}

// Tx returns the transaction in which a handler inside of a [Middleware] runs. The parameter ctx is the context of the message. Tx panics if ctx has
// no transaction of type TX.
func Tx[TX any](ctx context.Context) TX {
	tx, ok := ctx.Value(txKey[TX]{}).(TX)
	if !ok {
		panic("watermillbroker: Tx: the context has no transaction, or a transaction of another type. Try: the Context() of the message that watermillbroker.Middleware gives to the handler")
	}
	return tx
}

type consumer struct {
	wait   func(ctx context.Context, d time.Duration)
	handle func(ctx context.Context, m oncemessage.Message) (inbox.Outcome, error)
	refuse func(ctx context.Context, m oncemessage.Message, class string, reason error) error
}

// consume applies a message. If the error is nil, the router acknowledges the message; otherwise the router gives it back.
func (c *consumer) consume(arrived *message.Message) error {
	ctx := arrived.Context()
	m, err := decode(arrived)
	if err != nil {
		err = c.refuse(ctx, m, "malformed", err)
	} else {
		_, err = c.handle(ctx, m)
	}
	if err == nil {
		return nil
	}
	_, after := retry.Classify(err)
	// Watermill cannot delay a delivery, so the pause happens here.
	c.wait(ctx, min(max(after, shortestWait), longestWait))
	return fmt.Errorf("watermillbroker: message %s: %w", arrived.UUID, err)
}

// shortestWait is the pause after an error without a time, for example if the database cannot be reached.
const shortestWait = 200 * time.Millisecond

// wait waits for d, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// natsID is the header that carries the ID of a message that is not a CloudEvent.
const natsID = "nats-msg-id"

// decode returns the message for the inbox. If the message is not an event, its UUID is its ID.
func decode(arrived *message.Message) (oncemessage.Message, error) {
	m, err := cloudevent.Decode(func(yield func(name, value string) bool) {
		for name, value := range arrived.Metadata {
			if !yield(name, value) {
				return
			}
		}
		if arrived.UUID != "" && arrived.Metadata.Get(natsID) == "" {
			yield(natsID, arrived.UUID)
		}
	}, cloudevent.Kafka, arrived.Payload)
	m.Topic = message.SubscribeTopicFromCtx(arrived.Context())
	return m, err
}
