package amqpbroker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/consume"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/retry"
)

// busySink is a sink whose handler asks for a pause of two hours.
type busySink struct{ consume.Sink }

func (busySink) HandleBatch(_ context.Context, list []message.Message) []inbox.Result {
	results := make([]inbox.Result, len(list))
	for i := range results {
		results[i].Err = retry.After(errors.New("429"), 2*time.Hour)
	}
	return results
}
func (busySink) Run(ctx context.Context) error               { <-ctx.Done(); return nil }
func (busySink) Hanging() int                                { return 0 }
func (busySink) Attach(func() inbox.Backlog) (detach func()) { return func() {} }

// returned is a receipt without a channel, which notes when the message goes back to the queue.
type returned struct {
	receipt

	at chan<- time.Time
}

func (r returned) Again(after time.Duration) bool {
	if after > 0 {
		return r.receipt.Again(after)
	}
	r.at <- time.Now()
	return true
}

// TestLongPauseIsShorterThanTheConsumerTimeout: whatever pause a handler asks for, its message goes back to the queue after ten minutes, and not before.
func TestLongPauseIsShorterThanTheConsumerTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, err := Dial("amqp://127.0.0.1", amqp.Config{})
		if err != nil {
			t.Fatal(err)
		}
		c, err := newConsumer(conn, busySink{}, ConsumerConfig{Queue: "refunds"})
		if err != nil {
			t.Fatal(err)
		}
		began, at := time.Now(), make(chan time.Time, 1)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.pool.Run(ctx, func(ctx context.Context) error { <-ctx.Done(); return nil }) }()
		c.pool.Add(&consume.Delivery{Message: message.Message{ID: "1", Source: "s", Topic: "refunds"}, Receipt: returned{at: at}})
		select {
		case back := <-at:
			if held := back.Sub(began); held != 10*time.Minute {
				t.Errorf("the message was held for %v", held)
			}
		case <-time.After(time.Hour):
			t.Error("the message is not back at the queue after an hour")
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
