package consume

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/retry"
)

// TestFailedCountApart: messages that have failed leave the room to others, and at most half of the workers try them again, also when all
// of them are due at the same time.
func TestFailedCountApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const places = 4
		var sick, most atomic.Int64
		tries := map[string]*atomic.Int64{}
		for i := range 3 * places {
			tries[fmt.Sprint("sick ", i)] = new(atomic.Int64)
		}
		sink := &fakeSink{handle: func(_ context.Context, m inbox.Message) error {
			if n := tries[m.ID]; n != nil {
				if n.Add(1) > 1 {
					most.Store(max(most.Load(), sick.Add(1)))
					<-time.After(time.Minute)
					sick.Add(-1)
				}
				return retry.After(errFailed, time.Second)
			}
			return nil
		}}
		b := &fakeBroker{}
		p, _ := start(t, sink, Config{Concurrency: places, Batch: 1, Prefetch: places})
		for id := range tries {
			if n, err := p.Room(t.Context(), 1); n == 0 || err != nil {
				t.Fatal(n, err)
			}
			p.Add(b.delivery(id, "", 0))
			synctest.Wait()
		}
		pass(10 * time.Second) // all are due, and those that are tried take long
		if n, err := p.Room(t.Context(), 1); n != places || err != nil {
			t.Errorf("there is room for %d messages: %v", n, err)
		}
		for i := range 100 {
			p.Add(b.delivery(fmt.Sprint(i), "", 0))
		}
		pass(time.Second)
		if n := strings.Count(strings.Join(b.told(), "\n"), "ack "); n != 100 {
			t.Errorf("%d messages of 100 are applied", n)
		}
		if n := most.Load(); n != places/2 {
			t.Errorf("%d workers have messages that have failed", n)
		}
		pass(time.Hour)
		for id, n := range tries {
			if n.Load() < 2 {
				t.Errorf("%s is not tried again", id)
			}
		}
	})
}

// TestSlowKey: messages that wait for one of their key, whose handler takes long, leave the room to others. A broker that delivers again gets
// those back that there is no room for.
func TestSlowKey(t *testing.T) {
	for _, keeps := range []bool{false, true} {
		t.Run(fmt.Sprintf("keeps=%v", keeps), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				free := make(chan struct{})
				sink := &fakeSink{handle: func(_ context.Context, m inbox.Message) error {
					if m.ID == "0" {
						<-free
					}
					return nil
				}}
				b := &fakeBroker{keeps: keeps}
				p, _ := start(t, sink, Config{Concurrency: 2, Batch: 1, Prefetch: 4})
				for i := range 12 {
					if n, err := p.Room(t.Context(), 1); n == 0 || err != nil {
						t.Fatal(n, err)
					}
					p.Add(b.delivery(fmt.Sprint(i), "slow", 0))
					synctest.Wait()
				}
				if n, held := b.count("again 11 5s"), len(p.held); n != 1 || keeps && held > 8 || !keeps && held != 12 {
					t.Errorf("the pool holds %d messages, and the broker was told %q", held, b.told())
				}
				if n, err := p.Room(t.Context(), 1); n != 4 || err != nil {
					t.Errorf("there is room for %d messages: %v", n, err)
				}
				p.Add(b.delivery("other", "", 0))
				synctest.Wait()
				want(t, "handled", slices.DeleteFunc(sink.handled(), func(id string) bool { return id != "other" }), "other")
				close(free)
				pass(time.Minute)
				if len(p.held) != 0 || p.aside.count != 0 || p.aside.bytes != 0 || p.bytes != 0 {
					t.Errorf("the pool holds %d messages, %d apart, %d bytes", len(p.held), p.aside.count, p.aside.bytes)
				}
			})
		})
	}
}

// TestHangingHandlers: handlers that do not return take at most half of the places, however many they are. What has hung is not tried again
// while they have theirs.
func TestHangingHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int64
		sink := &fakeSink{}
		var tries atomic.Int64
		sink.handle = func(_ context.Context, m inbox.Message) error {
			if m.ID == "hangs" {
				tries.Add(1)
				return fmt.Errorf("%w: a test", inbox.ErrHandlerTimeout)
			}
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			<-time.After(time.Millisecond)
			return nil
		}
		b := &fakeBroker{}
		p, _ := start(t, sink, Config{Concurrency: 4, Batch: 1})
		sink.hanging.Store(100)
		p.Add(b.delivery("hangs", "", 0))
		for i := range 50 {
			p.Add(b.delivery(fmt.Sprint(i), "", 0))
		}
		pass(time.Hour)
		if most.Load() != 2 || b.count("ack 49") != 1 || tries.Load() != 1 {
			t.Errorf("%d of 4 places are taken, %d attempts of the message that hangs", most.Load(), tries.Load())
		}
		sink.hanging.Store(0)
		pass(time.Hour)
		if tries.Load() < 2 {
			t.Error("the message that has hung is not tried again")
		}
	})
}
