package natsdemo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/oncelib/once/cmd/once/internal/killstorm"
)

// streams are the streams of a storm over events.
type streams struct {
	conn   *nats.Conn
	js     jetstream.JetStream
	stream jetstream.Stream // of the relays
}

const (
	// shortestWindow is the shortest duplicate window of a stream: duplicates of a relay must stay visible.
	shortestWindow = 100 * time.Millisecond

	startPatience = 2 * time.Minute
)

// Connect makes the streams of a storm.
func Connect(ctx context.Context, address string) (killstorm.Streams, error) {
	conn, err := nats.Connect("nats://"+address, nats.Timeout(startPatience), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond), nats.ReconnectJitter(0, 0))
	if err != nil {
		return nil, err
	}
	s := &streams{conn: conn}
	if s.js, err = jetstream.New(conn, jetstream.WithDefaultTimeout(startPatience)); err == nil {
		s.stream, err = s.js.CreateStream(ctx, jetstream.StreamConfig{Name: killstorm.EventStream, Subjects: killstorm.EventSubjects, Duplicates: shortestWindow})
	}
	if err == nil {
		_, err = s.js.CreateStream(ctx, jetstream.StreamConfig{Name: killstorm.ReceiverStream, Subjects: []string{killstorm.ReceiverPrefix + ">"}, Duplicates: shortestWindow})
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return s, nil
}

// Close implements [killstorm.Streams].
func (s *streams) Close() { s.conn.Close() }

// Read implements [killstorm.Streams], by a consumer of its own.
func (s *streams) Read(ctx context.Context, number uint64, take func(killstorm.EventMessage)) error {
	const batch, longest, wait = 256, 10 * time.Second, time.Second / 4
	bounded, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	from, err := s.stream.CreateConsumer(bounded, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: number, AckPolicy: jetstream.AckNonePolicy,
		MemoryStorage: true, InactiveThreshold: time.Minute,
	})
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		messages, err := from.Fetch(batch, jetstream.FetchMaxWait(wait))
		if err != nil {
			return err
		}
		for m := range messages.Messages() {
			meta, err := m.Metadata()
			if err != nil || meta.Sequence.Stream != number { // the subscription has lost earlier messages
				return errors.Join(err, errors.New("the subscription has lost earlier messages"))
			}
			number++
			take(killstorm.EventMessage{Subject: m.Subject(), Header: header(m.Headers()), Payload: m.Data()})
		}
		if err := messages.Error(); err != nil {
			return err
		}
	}
	return nil
}

func header(h nats.Header) map[string]string {
	values := map[string]string{}
	for name := range h {
		values[name] = h.Get(name)
	}
	return values
}

// Copy implements [killstorm.Streams].
func (s *streams) Copy(ctx context.Context, id string, m killstorm.EventMessage) error {
	c := nats.NewMsg(m.Subject)
	c.Data = m.Payload
	for name, value := range m.Header {
		c.Header.Set(name, value)
	}
	c.Header.Set(jetstream.MsgIDHeader, id)
	_, err := s.js.PublishMsg(ctx, c, jetstream.WithRetryAttempts(0))
	return err
}

// Handled implements [killstorm.Streams].
func (s *streams) Handled(ctx context.Context, consumers ...string) (progress uint64, all bool, err error) {
	for _, name := range consumers {
		c, err := s.js.Consumer(ctx, killstorm.ReceiverStream, name)
		if errors.Is(err, jetstream.ErrConsumerNotFound) { // the receiver has not made its consumer yet
			return progress, false, nil
		}
		if err != nil {
			return progress, false, fmt.Errorf("consumer %s: %w", name, err)
		}
		info := c.CachedInfo()
		progress += info.AckFloor.Consumer + info.AckFloor.Stream
		if info.NumPending > 0 || info.NumAckPending > 0 {
			return progress, false, nil
		}
	}
	return progress, true, nil
}
