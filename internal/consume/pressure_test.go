package consume

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/message"
	"github.com/oncelib/once/retry"
)

// TestDatabaseIsDown: while the database refuses everything, there is a pause after each try, and few of them; when it is back,
// all workers are.
func TestDatabaseIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := time.Now().Add(10 * time.Minute)
		tries := 0
		var mu sync.Mutex
		sink := &fakeSink{handle: func(context.Context, message.Message) error {
			mu.Lock()
			defer mu.Unlock()
			if time.Now().Before(back) {
				tries++
				return errDown
			}
			return nil
		}}
		b := &fakeBroker{}
		p, _ := start(t, sink, Config{Concurrency: 8, Batch: 1})
		for i := range 40 {
			p.Add(b.delivery(fmt.Sprint(i), "", 0))
		}
		pass(9 * time.Minute)
		if p.pressure.limit() != 1 {
			t.Errorf("%d workers may be busy", p.pressure.limit())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if n, err := p.Room(ctx, 1); err == nil {
			t.Errorf("there is room for %d messages", n)
		}
		pass(9 * time.Minute)
		if tries < 20 || tries > 2000 || p.pressure.limit() != 8 || p.pressure.refusals != 0 || len(p.held) != 0 {
			t.Errorf("%d tries, %d workers; the pool holds %d messages", tries, p.pressure.limit(), len(p.held))
		}
	})
}

// TestDropWhileDatabaseIsDown: the messages that would show that the database is back go to another process, and one
// that waits long for its next attempt stays. There is room for another one, to see.
func TestDropWhileDatabaseIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := true
		sink := &fakeSink{handle: func(_ context.Context, m message.Message) error {
			switch {
			case m.ID == "bad":
				return retry.After(errFailed, 5*time.Minute)
			case down:
				return errDown
			}
			return nil
		}}
		p, _ := start(t, sink, Config{Concurrency: 1, Batch: 1})
		b := &fakeBroker{}
		p.Add(b.delivery("bad", "", 0))
		synctest.Wait()
		gone := b.delivery("gone", "", 0)
		p.Add(gone)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := p.Drop(ctx, func(d *Delivery) bool { return d == gone }); err != nil {
			t.Error(err)
		}
		down = false
		if n, err := p.Room(ctx, 1); n != 1 || err != nil {
			t.Fatalf("room for %d messages: %v", n, err)
		}
		p.Add(b.delivery("next", "", 0))
		pass(30 * time.Second)
		want(t, "answers", b.told(), "again bad 5m0s", "again gone "+strings.Split(b.told()[1], " ")[2], "ack next")
		if p.pressure.refusals != 0 {
			t.Error("the consumer still pauses")
		}
	})
}

// TestBadMessageIsNoPressure: an error of a handler says nothing about the database.
func TestBadMessageIsNoPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &fakeSink{handle: func(context.Context, message.Message) error { return retry.After(errFailed, time.Second) }}
		b := &fakeBroker{keeps: true}
		p, _ := start(t, sink, Config{Concurrency: 8, Batch: 1})
		for i := range 40 {
			p.Add(b.delivery(fmt.Sprint(i), "", 0))
		}
		pass(time.Minute)
		if p.pressure.limit() != 8 || len(b.told()) != 40 {
			t.Errorf("%d workers may be busy, %d answers", p.pressure.limit(), len(b.told()))
		}
	})
}

// TestSlowAcquire: while transactions wait for long for a connection, fewer of them run at once; those that have waited at the same
// time count once. When they do not wait any more, all workers come back.
func TestSlowAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &fakeSink{wait: DefaultSlowAcquire + 1, handle: func(context.Context, message.Message) error { <-time.After(time.Second); return nil }}
		b := &fakeBroker{}
		added := 0
		for _, never := range []bool{true, false} {
			cfg := Config{Concurrency: 8, Batch: 1}
			if never {
				cfg.SlowAcquire = -1
			}
			p, _ := start(t, sink, cfg)
			add := func(n int) {
				for range n {
					p.Add(b.delivery(fmt.Sprint(added), "", 0))
					added++
				}
			}
			limit := func(what string, want int) {
				t.Helper()
				if p.mu.Lock(); p.pressure.limit() != want {
					t.Errorf("%s: %d workers may be busy, want %d", what, p.pressure.limit(), want)
				}
				p.mu.Unlock()
			}
			add(8)
			pass(2 * time.Second)
			if never {
				limit("a negative SlowAcquire", 8)
				continue
			}
			limit("eight have waited at once", 6)
			add(60)
			pass(time.Minute)
			limit("many have waited", 1)
			sink.wait = DefaultSlowAcquire
			add(60)
			pass(time.Minute)
			limit("none waits any more", 8)
		}
		if n := len(b.told()); n != added {
			t.Errorf("%d answers", n)
		}
	})
}

type fakeCapacity struct {
	mu      sync.Mutex
	places  int
	taken   int
	refused int // places that were not useful
}

func (c *fakeCapacity) Acquire() (func(bool), bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken >= c.places {
		return nil, false
	}
	c.taken++
	return func(useful bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.taken--
		if !useful {
			c.refused++
		}
	}, true
}

func (c *fakeCapacity) Limit() int { c.mu.Lock(); defer c.mu.Unlock(); return c.places }

// TestCapacityBoundsBatches: a capacity bounds the batches at once, also when it changes, and learns which of them tell nothing.
func TestCapacityBoundsBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeCapacity{}
		var mu sync.Mutex
		running, most := 0, 0
		sink := &fakeSink{handle: func(context.Context, message.Message) error {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			<-time.After(time.Second)
			mu.Lock()
			defer mu.Unlock()
			running--
			return nil
		}}
		b := &fakeBroker{}
		p, _ := start(t, sink, Config{Concurrency: 8, Batch: 1, Capacity: c})
		for i := range 20 {
			p.Add(b.delivery(fmt.Sprint(i), "", 0))
		}
		pass(time.Minute)
		if most != 0 {
			t.Errorf("%d batches without a place", most)
		}
		c.mu.Lock()
		c.places = 3
		c.mu.Unlock()
		pass(time.Minute)
		if most != 3 || len(b.told()) != 20 || c.taken != 0 || c.refused != 0 {
			t.Errorf("%d batches at once, %d answers, %d places taken, %d refused", most, len(b.told()), c.taken, c.refused)
		}
		sink.handle = func(context.Context, message.Message) error { return errDown }
		b.keeps = true
		p.Add(b.delivery("20", "", 0))
		pass(time.Minute)
		if c.refused != 1 || c.taken != 0 {
			t.Errorf("%d places refused, %d taken", c.refused, c.taken)
		}
	})
}
