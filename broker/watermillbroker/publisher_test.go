package watermillbroker_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/oncelib/once/broker/watermillbroker"
	oncemessage "github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/outbox/outboxtest"
)

var errRefused = errors.New("refused")

// picky refuses messages that say so.
type picky struct{ message.Publisher }

func (p picky) Publish(topic string, messages ...*message.Message) error {
	if len(messages) != 1 {
		return errors.New("not one message")
	}
	if messages[0].Metadata.Get("refuse") != "" {
		return errRefused
	}
	return p.Publisher.Publish(topic, messages...)
}

// arrivals keeps what has arrived.
type arrivals struct {
	mu      sync.Mutex
	arrived []oncemessage.Message
}

func (i *arrivals) subscribe(t *testing.T, from message.Subscriber, topic string) {
	t.Helper()
	messages, err := from.Subscribe(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for m := range messages {
			got, err := outboxtest.Message(topic, "ce_", false, func(yield func(name, value string) bool) {
				for name, value := range m.Metadata {
					if !yield(name, value) {
						return
					}
				}
			}, m.Payload)
			if err != nil || got.ID != m.UUID {
				t.Errorf("message %s: %+v, %v", m.UUID, got, err)
			}
			i.mu.Lock()
			i.arrived = append(i.arrived, got)
			i.mu.Unlock()
			m.Ack()
		}
	}()
}

func (i *arrivals) received(*testing.T) []oncemessage.Message {
	i.mu.Lock()
	defer i.mu.Unlock()
	arrived := i.arrived
	i.arrived = nil
	return arrived
}

func TestPublisherKeepsTheContract(t *testing.T) {
	channel := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, nil)
	defer func() { _ = channel.Close() }()
	var in arrivals
	topics := []string{"refunds", "payouts"}
	for _, topic := range topics {
		in.subscribe(t, channel, topic)
	}
	outboxtest.Run(t, outboxtest.Destination{
		Publisher: watermillbroker.Publisher(picky{channel}), Topics: topics, Received: in.received,
		Reject: func(m *oncemessage.Message) { m.Headers = map[string]string{"refuse": "yes"} },
	})
}

// hanging publishes nothing until it is released.
type hanging struct {
	message.Publisher

	began, release chan struct{}
}

func (h hanging) Publish(string, ...*message.Message) error {
	h.began <- struct{}{}
	<-h.release
	return nil
}

// TestHangingPublisher: a Publish that does not return is no success and delays no other call, and calls that hang do not
// grow without bound.
func TestHangingPublisher(t *testing.T) {
	h := hanging{began: make(chan struct{}, 1000), release: make(chan struct{})}
	p := watermillbroker.Publisher(h)
	messages := make([]oncemessage.Message, 100)
	const slots = 16
	for round := range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		if round == 0 { // all slots are taken, however long that takes
			cancel()
			ctx, cancel = context.WithCancel(t.Context())
			go func() {
				for range slots {
					<-h.began
				}
				cancel()
			}()
		}
		errs := p.Publish(ctx, messages)
		cancel()
		for i := range messages {
			if errs == nil || !outbox.IsUnavailable(errs[i]) {
				t.Fatalf("message %d: %v", i, errs)
			}
		}
	}
	if calls := len(h.began); calls != 0 {
		t.Errorf("%d calls hang, want %d", slots+calls, slots)
	}
	close(h.release)
	if errs := p.Publish(t.Context(), messages); errs != nil {
		t.Error(errs)
	}
}
