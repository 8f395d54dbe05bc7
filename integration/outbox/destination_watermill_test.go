package outbox

import (
	"errors"
	"maps"

	watermillmessage "github.com/ThreeDotsLabs/watermill/message"

	"github.com/oncelib/once/broker/watermillbroker"
	oncemessage "github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/outbox/outboxtest"
)

// watermillPublisher is the publisher of a relay process: one of Watermill that sends each message to a consumer.
func watermillPublisher(url string) outbox.Publisher {
	return watermillbroker.Publisher(toConsumer{url})
}

// toConsumer implements message.Publisher of Watermill.
type toConsumer struct{ url string }

func (c toConsumer) Publish(topic string, messages ...*watermillmessage.Message) error {
	for _, m := range messages {
		sent, err := outboxtest.Message(topic, "ce_", false, maps.All(m.Metadata), m.Payload)
		if err != nil {
			return err
		}
		if err := errors.Join(post(m.Context(), c.url, []oncemessage.Message{sent})...); err != nil {
			return err
		}
	}
	return nil
}

func (toConsumer) Close() error { return nil }
