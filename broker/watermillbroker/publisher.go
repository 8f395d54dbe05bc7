package watermillbroker

import (
	"bytes"
	"context"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/oncelib/once/internal/keyed"
	oncemessage "github.com/oncelib/once/message"
	"github.com/oncelib/once/message/cloudevent"
	"github.com/oncelib/once/outbox"
)

const onTheWay = 16 // the largest number of running calls of Publish

// Publisher returns a publisher for the relay of an outbox. The returned publisher sends each message with a Watermill publisher,
// the parameter to.
func Publisher(to message.Publisher) outbox.Publisher {
	return &publisher{to: to, sender: keyed.NewSender(onTheWay)}
}

type publisher struct {
	to     message.Publisher
	sender *keyed.Sender
}

// Publish implements [outbox.Publisher].
func (p *publisher) Publish(ctx context.Context, messages []oncemessage.Message) []error {
	return p.sender.Publish(ctx, messages, func(m *oncemessage.Message) error {
		if err := p.to.Publish(m.Topic, newMessage(ctx, m)); err != nil {
			return fmt.Errorf("watermillbroker: topic %s: %w", m.Topic, err)
		}
		return nil
	})
}

func newMessage(ctx context.Context, m *oncemessage.Message) *message.Message {
	made := message.NewMessageWithContext(ctx, m.ID, bytes.Clone(m.Payload)) // a copy, because a publisher may change the payload
	for name, value := range cloudevent.Headers(m, cloudevent.Kafka) {
		made.Metadata.Set(name, value)
	}
	return made
}
