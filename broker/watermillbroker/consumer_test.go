package watermillbroker

// The tests with servers are in integration/push: "make test-of DIR=broker/watermillbroker" runs them after these.

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/oncelib/once/inbox"
	oncemessage "github.com/oncelib/once/message"
	"github.com/oncelib/once/retry"
)

var errFailed = errors.New("failed")

// calls is what a consumer asks of its inbox.
type calls struct {
	handled, refused []oncemessage.Message
	waits            []time.Duration
	failures         []error // of the next calls
}

func (c *calls) next() (err error) {
	if len(c.failures) > 0 {
		err, c.failures = c.failures[0], c.failures[1:]
	}
	return err
}

func (c *calls) consumer() *consumer {
	return &consumer{
		wait: func(_ context.Context, d time.Duration) { c.waits = append(c.waits, d) },
		handle: func(_ context.Context, m oncemessage.Message) (inbox.Outcome, error) {
			c.handled = append(c.handled, m)
			return inbox.Applied, c.next()
		},
		refuse: func(_ context.Context, m oncemessage.Message, class string, reason error) error {
			if class != "malformed" || reason == nil {
				return errors.New("no reason")
			}
			c.refused = append(c.refused, m)
			return c.next()
		},
	}
}

// TestConsumerAcknowledgesAppliedMessages: a message is acknowledged when it is applied or kept, and given back after the pause that its failure asks for.
func TestConsumerAcknowledgesAppliedMessages(t *testing.T) {
	event := func(changes ...string) *message.Message {
		m := message.NewMessage("uuid", []byte("x"))
		for name, value := range map[string]string{"ce_specversion": "1.0", "ce_id": "1", "ce_source": "s", "ce_type": "t"} {
			m.Metadata.Set(name, value)
		}
		for i := 0; i < len(changes); i += 2 {
			m.Metadata.Set(changes[i], changes[i+1])
		}
		return m
	}
	for name, c := range map[string]struct {
		m       *message.Message
		failure error
		id      string // that is handled
		refused bool
		wait    time.Duration
	}{
		"applied":                {event(), nil, "1", false, 0},
		"failed":                 {event(), errFailed, "1", false, 200 * time.Millisecond},
		"failed, soon":           {event(), retry.After(errFailed, time.Millisecond), "1", false, 200 * time.Millisecond},
		"failed, later":          {event(), retry.After(errFailed, 3*time.Second), "1", false, 3 * time.Second},
		"failed, much later":     {event(), retry.After(errFailed, time.Hour), "1", false, 10 * time.Second},
		"no event":               {message.NewMessage("uuid", nil), nil, "uuid", false, 0},
		"malformed":              {event("ce_type", ""), nil, "", true, 0},
		"malformed, no database": {event("ce_type", ""), errFailed, "", true, 200 * time.Millisecond},
		"without any ID":         {message.NewMessage("", []byte("x")), nil, "", true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			in := calls{failures: []error{c.failure}}
			err := in.consumer().consume(c.m)
			if (err == nil) != (c.failure == nil) || !errors.Is(err, c.failure) {
				t.Errorf("%v", err)
			}
			if c.id != "" && (len(in.handled) != 1 || in.handled[0].ID != c.id) || c.id == "" && len(in.handled) > 0 || (len(in.refused) == 1) != c.refused {
				t.Errorf("handled %+v, refused %+v", in.handled, in.refused)
			}
			if c.wait == 0 != (len(in.waits) == 0) || c.wait != 0 && in.waits[0] != c.wait {
				t.Errorf("waits %v, want %v", in.waits, c.wait)
			}
		})
	}
}

// TestHandlerGetsWhatPublisherSends: every field of a message arrives, through a router.
func TestHandlerGetsWhatPublisherSends(t *testing.T) {
	channel := gochannel.NewGoChannel(gochannel.Config{Persistent: true}, nil)
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	in := calls{failures: []error{errFailed, errFailed}}
	consumer := in.consumer()
	applied := make(chan oncemessage.Message, 1)
	handle := consumer.handle
	consumer.handle = func(ctx context.Context, m oncemessage.Message) (o inbox.Outcome, err error) {
		if o, err = handle(ctx, m); err == nil {
			applied <- m
		}
		return o, err
	}
	router.AddConsumerHandler("billing", "refunds", channel, consumer.consume)
	ended := make(chan error, 1)
	go func() { ended <- router.Run(t.Context()) }()
	sent := oncemessage.Message{ID: "0194b5e0-7f00-7000-8000-000000000001", Topic: "refunds", Key: "Zoë 7", Seq: 3, Type: "refund.succeeded", Source: "payments", Payload: []byte{0, 255}, Headers: map[string]string{"tenant": "7"}}
	if errs := Publisher(channel).Publish(t.Context(), []oncemessage.Message{sent}); errs != nil {
		t.Fatal(errs)
	}
	got := <-applied
	if got.ID != sent.ID || got.Topic != sent.Topic || got.Key != sent.Key || got.Seq != sent.Seq || got.Type != sent.Type || got.Source != sent.Source || string(got.Payload) != string(sent.Payload) || got.Headers["tenant"] != "7" {
		t.Errorf("%+v", got)
	}
	if err := errors.Join(router.Close(), channel.Close(), <-ended); err != nil {
		t.Error(err)
	}
	if len(in.handled) != 3 || len(in.waits) != 2 {
		t.Errorf("%d deliveries, pauses %v", len(in.handled), in.waits)
	}
}

// TestWaitEnds: a router that is closed does not wait for a pause to end.
func TestWaitEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wait(ctx, 1<<62)
	wait(t.Context(), 1)
}

// TestApplyGivesEventAndTransaction: a handler of Watermill gets the event and its transaction, and what it returns is not lost silently.
func TestApplyGivesEventAndTransaction(t *testing.T) {
	m := oncemessage.Message{ID: "1", Source: "s", Topic: "refunds", Key: "k", Seq: 7, Type: "t", Payload: []byte("x"), Headers: map[string]string{"tenant": "7"}}
	var fails error
	var produced []*message.Message
	h := Apply[int](func(got *message.Message) ([]*message.Message, error) {
		if tx := Tx[int](got.Context()); tx != 42 {
			t.Errorf("transaction %v", tx)
		}
		if got.UUID != "1" || got.Metadata.Get("ce_partitionkey") != "k" || got.Metadata.Get("tenant") != "7" || string(got.Payload) != "x" {
			t.Errorf("%+v", got)
		}
		return produced, fails
	})
	if err := h(t.Context(), 42, m); err != nil {
		t.Error(err)
	}
	fails = errFailed
	if err := h(t.Context(), 42, m); !errors.Is(err, errFailed) {
		t.Error(err)
	}
	fails, produced = nil, []*message.Message{message.NewMessage("2", nil)}
	err := h(t.Context(), 42, m)
	if class, _ := retry.Classify(err); class != retry.ClassFinal || !strings.Contains(err.Error(), "Try: add them with outbox.Box.Add") {
		t.Errorf("%v is of class %v", err, class)
	}
	defer func() {
		if recover() == nil {
			t.Error("Tx has no transaction and returns")
		}
	}()
	Tx[string](context.WithValue(t.Context(), txKey[int]{}, 42))
}
