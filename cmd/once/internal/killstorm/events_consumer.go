package killstorm

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// consumer reads the stream as it is, in the order in which the broker has stored it. The broker
// dies under it, and then it goes on behind the last message that it has read.
type consumer struct {
	conn   *nats.Conn
	js     jetstream.JetStream
	stream jetstream.Stream
	next   uint64 // in the stream

	heard     *meter // deliveries
	forwarder *forwarder

	mu    sync.Mutex
	got   arrivals
	alive time.Time // when the last message came
}

// EventStream is the stream of the relays.
const EventStream = "ONCE_DEMO"

// EventSubjects are the subjects of [EventStream].
var EventSubjects = []string{"charges", refundsSubject}

const refundsSubject = "refunds"

// shortestWindow is the shortest duplicate window of a stream: what a relay repeats is to be seen.
const shortestWindow = 100 * time.Millisecond

// newConsumer makes the streams. parked is what a forwarder asks.
func newConsumer(ctx context.Context, address string, parked func(context.Context, string) (bool, error)) (*consumer, error) {
	c := &consumer{next: 1, heard: newMeter(), got: newArrivals(), alive: time.Now()}
	var err error
	c.conn, err = nats.Connect("nats://"+address, nats.Timeout(startPatience), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond), nats.ReconnectJitter(0, 0))
	if err != nil {
		return nil, err
	}
	if c.js, err = jetstream.New(c.conn, jetstream.WithDefaultTimeout(startPatience)); err == nil {
		c.forwarder = newForwarder(c.js, parked)
		c.stream, err = c.js.CreateStream(ctx, jetstream.StreamConfig{Name: EventStream, Subjects: EventSubjects, Duplicates: shortestWindow})
	}
	if err == nil {
		_, err = c.js.CreateStream(ctx, jetstream.StreamConfig{Name: receiverStream, Subjects: []string{ReceiverPrefix + ">"}, Duplicates: shortestWindow})
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *consumer) close() { c.conn.Close() }

// run reads until ctx ends. Every error means that the broker is dead, or was.
func (c *consumer) run(ctx context.Context, progress func()) {
	const pause = 20 * time.Millisecond
	for ctx.Err() == nil {
		if c.read(ctx, progress) != nil {
			_ = sleep(ctx, pause)
		}
	}
}

// read reads from a consumer of its own until it fails.
func (c *consumer) read(ctx context.Context, progress func()) error {
	const batch, longest, wait = 256, 10 * time.Second, time.Second / 4
	bounded, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	from, err := c.stream.CreateConsumer(bounded, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: c.next, AckPolicy: jetstream.AckNonePolicy,
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
			if err != nil || meta.Sequence.Stream != c.next { // what comes before it is lost on its way to us
				return errors.Join(err, errors.New("not the next message"))
			}
			c.next++
			c.take(m.Subject(), m.Headers(), m.Data())
			c.forwarder.add(&nats.Msg{Subject: m.Subject(), Header: m.Headers(), Data: m.Data()})
		}
		if err := messages.Error(); err != nil {
			return err
		}
		progress()
	}
	return nil
}

// take counts one delivery.
func (c *consumer) take(subject string, h nats.Header, payload []byte) {
	var body struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(payload, &body) // if it is another payload, its event is not counted
	seq := sequence(h)                 // and if it has no number, it is out of order
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.heard.count()
	c.alive = time.Now()
	c.got.add(h.Get("ce-type")+" "+body.ID, subject+" "+h.Get("ce-partitionkey"), seq)
}

// tick is how often it is looked whether something has ended.
const tick = 20 * time.Millisecond

// await waits until all wanted events are here, or none has come for so long that none will.
func (c *consumer) await(ctx context.Context, wanted map[string]bool) {
	const patience = 60 * time.Second
	began := time.Now()
	for {
		c.mu.Lock()
		missing, since := c.got.missing(wanted), time.Since(c.alive)
		c.mu.Unlock()
		if missing == 0 || min(since, time.Since(began)) > patience || sleep(ctx, tick) != nil {
			return
		}
	}
}
