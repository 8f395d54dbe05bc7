package killstorm

import (
	"context"
	"encoding/json"
	"sync"
	"time"
)

// consumer reads the stream in the order in which the broker has stored it. When the broker was killed, the consumer continues after the last
// message that it has read.
type consumer struct {
	streams Streams
	next    uint64 // the number of the next message in the stream

	heard     *meter // deliveries
	forwarder *forwarder

	mu    sync.Mutex
	got   arrivals
	alive time.Time // when the last message was read
}

// newConsumer returns a consumer of streams. Its forwarder asks parked whether the receiver has parked an event.
func newConsumer(streams Streams, parked func(context.Context, string) (bool, error)) *consumer {
	return &consumer{streams: streams, next: 1, heard: newMeter(), got: newArrivals(), alive: time.Now(), forwarder: newForwarder(streams, parked)}
}

// run reads until ctx ends. It retries after each error, because an error means that the broker was killed.
func (c *consumer) run(ctx context.Context, progress func()) {
	const pause = 20 * time.Millisecond
	for ctx.Err() == nil {
		err := c.streams.Read(ctx, c.next, func(m EventMessage) {
			c.next++
			c.take(m)
			c.forwarder.add(m)
			progress()
		})
		if err != nil {
			_ = sleep(ctx, pause)
		}
	}
}

// take counts one delivery.
func (c *consumer) take(m EventMessage) {
	var body struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(m.Payload, &body) // an event with another payload is not counted
	seq := m.sequence()                  // a message without a number counts as out of order
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.heard.count()
	c.alive = time.Now()
	c.got.add(m.Header["ce-type"]+" "+body.ID, m.Subject+" "+m.Header["ce-partitionkey"], seq)
}

// tick is the time between two checks whether a condition has become true.
const tick = 20 * time.Millisecond

// await waits until all wanted events have arrived, or until no event has arrived for so long that no further event is expected.
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
