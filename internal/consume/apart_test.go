package consume

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/message"
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
		sink := &fakeSink{handle: func(_ context.Context, m message.Message) error {
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
				sink := &fakeSink{handle: func(_ context.Context, m message.Message) error {
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

// TestHangingHandlers: handlers that hang, and messages whose last handler has hung, take half of the places at most, however many they are. Each
// of these messages is tried again, and a message that has failed does not wait for them.
func TestHangingHandlers(t *testing.T) {
	for hanging, wanted := range map[int64]int64{0: 4, 3: 1, 100: 1} {
		t.Run(fmt.Sprint(hanging), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testHangingHandlers(t, hanging, wanted) })
		})
	}
}

func testHangingHandlers(t *testing.T, hanging, wanted int64) {
	const bad, places = 12, 8
	var failed, trying, most, healthy, mostHealthy atomic.Int64
	tries := map[string]*atomic.Int64{}
	for i := range bad {
		tries[fmt.Sprint("hangs ", i)] = new(atomic.Int64)
	}
	sink := &fakeSink{handle: func(_ context.Context, m message.Message) error {
		switch n := tries[m.ID]; {
		case m.ID == "fails":
			failed.Add(1)
			return retry.After(errFailed, time.Second)
		case n == nil:
			mostHealthy.Store(max(mostHealthy.Load(), healthy.Add(1)))
			<-time.After(100 * time.Millisecond)
			healthy.Add(-1)
			return nil
		case n.Add(1) > 1:
			most.Store(max(most.Load(), trying.Add(1)))
			<-time.After(2 * time.Minute)
			trying.Add(-1)
		}
		return retry.After(inbox.ErrHandlerTimeout, time.Second)
	}}
	b := &fakeBroker{}
	p, _ := start(t, sink, Config{Concurrency: places, Batch: 1, Log: slog.New(slog.DiscardHandler)})
	for id := range tries {
		p.Add(b.delivery(id, "key "+id, 0))
	}
	p.Add(b.delivery("fails", "", 0))
	synctest.Wait()
	sink.hanging.Store(hanging)
	pass(10 * time.Second)
	failed.Store(0)
	for i := range 1000 {
		p.Add(b.delivery(fmt.Sprint(i), "", 0))
	}
	pass(time.Minute)
	if n := strings.Count(strings.Join(b.told(), "\n"), "ack "); n != 1000 {
		t.Errorf("%d healthy messages of 1000 are applied beside those that hang", n)
	}
	if n := failed.Load(); n < 30 {
		t.Errorf("the message that fails is tried %d times in a minute", n)
	}
	pass(bad * 3 * time.Minute)
	for id, n := range tries {
		if n.Load() < 2 {
			t.Errorf("%s is not tried again", id)
		}
	}
	if n := most.Load(); n != wanted {
		t.Errorf("%d messages that have hung are tried at the same time, want %d", n, wanted)
	}
	if n := mostHealthy.Load(); n < places/2-1 {
		t.Errorf("%d of %d places have healthy messages", n, places)
	}
}

// TestTroubleShare: while healthy messages wait, those that fail get a twentieth of the time of the workers, and not less.
func TestTroubleShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const places, healthy, fail = 4, 4000, 600
		var failures, applied atomic.Int64
		sink := &fakeSink{handle: func(_ context.Context, m message.Message) error {
			<-time.After(10 * time.Millisecond)
			if strings.HasPrefix(m.ID, "fails") {
				failures.Add(1)
				return retry.After(errFailed, time.Second)
			}
			applied.Add(1)
			return nil
		}}
		b := &fakeBroker{}
		p, _ := start(t, sink, Config{Concurrency: places, Batch: 1})
		for i := range fail {
			p.Add(b.delivery(fmt.Sprint("fails ", i), "", 0))
		}
		pass(10 * time.Second)
		began := failures.Swap(0)
		for i := range healthy {
			p.Add(b.delivery(fmt.Sprint(i), "", 0))
		}
		for applied.Load() < healthy-places {
			<-time.After(time.Millisecond)
		}
		if n := failures.Load(); began < fail || n > healthy/10 || n < healthy/40 {
			t.Errorf("%d attempts of messages that fail beside %d of healthy ones; %d before", n, healthy, began)
		}
	})
}

// TestBacklogOfThePool: what the pool has is told: what is ready, what has failed or waits for its key, each with the oldest.
func TestBacklogOfThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		sink := &fakeSink{handle: func(_ context.Context, m message.Message) error {
			switch m.Key {
			case "fails":
				return retry.After(errFailed, time.Hour)
			case "slow":
				<-free
			}
			return nil
		}}
		b := &fakeBroker{}
		p, _ := start(t, sink, Config{Concurrency: 1, Batch: 1, Paused: func() (int, inbox.Waiting) { return 7, inbox.Waiting{Partition: 3} }})
		began := time.Now()
		for _, key := range []string{"fails", "fails", "slow", "slow", "ready", "other"} {
			p.Add(b.delivery(key+fmt.Sprint(time.Since(began)), key, 0))
			pass(time.Minute)
		}
		got := p.Backlog()
		if got.Ready != 2 || got.ReadyOldest != (inbox.Waiting{Source: "test", Topic: "refunds", Key: "ready", Since: began.Add(4 * time.Minute)}) {
			t.Errorf("ready: %+v", got)
		}
		if got.Postponed != 3 || got.PostponedOldest.Key != "fails" || !got.PostponedOldest.Since.Equal(began) || got.Paused != 7 || got.PausedOldest.Partition != 3 {
			t.Errorf("postponed, paused: %+v", got)
		}
		close(free)
		pass(time.Minute)
		if got := p.Backlog(); got.Ready != 0 || got.Postponed != 2 {
			t.Errorf("at the end: %+v", got)
		}
	})
}
