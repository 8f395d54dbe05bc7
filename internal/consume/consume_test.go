package consume

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/store"
)

var (
	errFailed = errors.New("the handler fails")
	errDown   = &store.Error{Kind: store.KindUnavailable, Err: errors.New("connection refused")}
)

// fakeSink is a sink in memory: handle says what becomes of a message.
type fakeSink struct {
	handle func(ctx context.Context, m message.Message) error
	run    func(ctx context.Context) error
	wait   time.Duration // that each batch tells

	hanging atomic.Int64

	mu      sync.Mutex
	batches [][]string // IDs
	refused []string
}

func (s *fakeSink) HandleBatch(ctx context.Context, messages []message.Message) []inbox.Result {
	var ids []string
	results := make([]inbox.Result, len(messages))
	for i, m := range messages {
		ids = append(ids, m.ID)
		results[i].Outcome, results[i].Wait = inbox.Applied, s.wait
		if s.handle != nil {
			results[i].Err = s.handle(ctx, m)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches = append(s.batches, ids)
	return results
}

func (s *fakeSink) Refuse(_ context.Context, m message.Message, class string, reason error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = append(s.refused, fmt.Sprint(m.ID, " ", class, " ", reason))
	return nil
}

func (s *fakeSink) Run(ctx context.Context) error {
	if s.run != nil {
		return s.run(ctx)
	}
	<-ctx.Done()
	return nil
}

func (s *fakeSink) Hanging() int { return int(s.hanging.Load()) }

func (s *fakeSink) Attach(func() inbox.Backlog) (detach func()) { return func() {} }

func (s *fakeSink) handled() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Concat(s.batches...)
}

// fakeBroker records what is answered.
type fakeBroker struct {
	keeps bool // it delivers a message again when it is asked

	mu      sync.Mutex
	answers []string
}

func (b *fakeBroker) notef(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answers = append(b.answers, fmt.Sprintf(format, args...))
}

func (b *fakeBroker) told() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.answers)
}

func (b *fakeBroker) count(answer string) (n int) {
	for _, a := range b.told() {
		if a == answer {
			n++
		}
	}
	return n
}

type fakeReceipt struct {
	broker *fakeBroker
	id     string
}

func (r fakeReceipt) Ack() { r.broker.notef("ack %s", r.id) }

func (r fakeReceipt) Again(after time.Duration) bool {
	r.broker.notef("again %s %v", r.id, after)
	return r.broker.keeps
}

func (r fakeReceipt) Apart(int) {}

func (r fakeReceipt) Extend() { r.broker.notef("extend %s", r.id) }

func (b *fakeBroker) delivery(id, key string, seq int64) *Delivery {
	return &Delivery{Message: message.Message{ID: id, Source: "test", Topic: "refunds", Key: key, Seq: seq}, Receipt: fakeReceipt{b, id}}
}

// start runs a pool until stop is called, which returns what Run does.
func start(t *testing.T, sink Sink, cfg Config) (p *Pool, stop func() error) {
	t.Helper()
	cfg.Log = slog.New(slog.DiscardHandler)
	p, err := New(sink, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx, func(ctx context.Context) error { <-ctx.Done(); return nil }) }()
	stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { _ = stop() })
	return p, stop
}

// pass lets time pass, and what is to happen then happen.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func want(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// TestOneWorkerForAKey: messages of a key are never in two workers, and come in their order; those of several keys
// run beside each other.
func TestOneWorkerForAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys, each = 9, 40
		var mu sync.Mutex
		running, most := map[string]bool{}, 0
		last := map[string]int64{}
		sink := &fakeSink{handle: func(_ context.Context, m message.Message) error {
			mu.Lock()
			if running[m.Key] {
				t.Errorf("key %s is in two workers", m.Key)
			}
			running[m.Key] = true
			most = max(most, len(running))
			mu.Unlock()
			<-time.After(time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			delete(running, m.Key)
			if m.Seq != last[m.Key]+1 {
				t.Errorf("key %s: %d comes after %d", m.Key, m.Seq, last[m.Key])
			}
			last[m.Key] = m.Seq
			return nil
		}}
		b := &fakeBroker{keeps: true}
		p, _ := start(t, sink, Config{Concurrency: 4, Batch: 8})
		for i := range keys * each {
			p.Add(b.delivery(fmt.Sprint(i), fmt.Sprint("key ", i%keys), int64(i/keys)+1))
			if i%50 == 0 { // while workers have others of the keys
				pass(500 * time.Microsecond)
			}
		}
		pass(time.Minute)
		if len(b.told()) != keys*each || most != 4 || len(p.held) != 0 || p.bytes != 0 || len(p.backlog.lines) != 0 || p.backlog.waiting != 0 {
			t.Errorf("%d answers, %d keys at once; the pool holds %d messages, %d bytes, %d lines", len(b.told()), most, len(p.held), p.bytes, len(p.backlog.lines))
		}
		for _, batch := range sink.batches {
			if len(batch) > 8 {
				t.Errorf("a batch of %d", len(batch))
			}
		}
	})
}

// TestKeyInHand: a message that comes while a worker has another one of its key waits for that worker; one of another
// key does not.
func TestKeyInHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		begun := make(chan string, 3)
		sink := &fakeSink{handle: func(_ context.Context, m message.Message) error { begun <- m.ID; <-free; return nil }}
		b := &fakeBroker{}
		p, _ := start(t, sink, Config{Concurrency: 3, Batch: 1})
		p.Add(b.delivery("a1", "a", 1))
		synctest.Wait()
		p.Add(b.delivery("a2", "a", 2), b.delivery("b1", "b", 1))
		synctest.Wait()
		if len(begun) != 2 || <-begun != "a1" || <-begun != "b1" {
			t.Error("a1 and b1 are not what has begun")
		}
		close(free)
		pass(time.Second)
		if len(sink.handled()) != 3 {
			t.Errorf("handled: %q", sink.handled())
		}
	})
}

// TestBrokerDeliversAgain: a failed message goes back to the broker with the pause that its error says.
func TestBrokerDeliversAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &fakeSink{handle: func(_ context.Context, m message.Message) error {
			if m.ID == "2" {
				return retry.After(errFailed, 7*time.Second)
			}
			return nil
		}}
		b := &fakeBroker{keeps: true}
		p, _ := start(t, sink, Config{Concurrency: 1})
		p.Add(b.delivery("1", "", 0), b.delivery("2", "", 0), b.delivery("3", "", 0))
		pass(time.Hour)
		want(t, "answers", b.told(), "ack 1", "again 2 7s", "ack 3")
		if len(p.held) != 0 {
			t.Errorf("the pool holds %d messages", len(p.held))
		}
	})
}

// queueReceipt is the receipt of a broker that delivers a message again only at once.
type queueReceipt struct{ fakeReceipt }

func (r queueReceipt) Again(after time.Duration) bool {
	if after == 0 {
		r.fakeReceipt.Again(after)
	}
	return after == 0
}

// TestHoldEndsALongPause: a failed message whose pause is longer than Hold goes back to the broker when Hold is over, and is not tried before. A message that waits for it is tried then.
// A shorter pause is kept by the pool.
func TestHoldEndsALongPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var tried []string
		sink := &fakeSink{handle: func(_ context.Context, m message.Message) error {
			tried = append(tried, fmt.Sprintf("%s %v", m.ID, time.Since(began)))
			switch {
			case m.ID == "long":
				return retry.After(errFailed, 2*time.Hour)
			case m.ID == "short" && len(tried) < 3:
				return retry.After(errFailed, 9*time.Minute)
			}
			return nil
		}}
		b := &fakeBroker{}
		p, _ := start(t, sink, Config{Concurrency: 1, Batch: 1, Hold: 10 * time.Minute})
		for _, id := range []string{"long", "later", "short"} {
			d := b.delivery(id, map[string]string{"short": "other"}[id]+"key", 0)
			d.Receipt = queueReceipt{fakeReceipt{b, id}}
			p.Add(d)
		}
		pass(10*time.Minute - 1)
		want(t, "answers before", b.told(), "ack short")
		pass(time.Minute)
		want(t, "answers", b.told(), "ack short", "again long 0s", "ack later")
		want(t, "attempts", tried, "long 0s", "short 0s", "short 9m0s", "later 10m0s")
		if len(p.held) != 0 || p.aside.count != 0 || p.bytes != 0 || len(p.backlog.lines) != 0 {
			t.Errorf("the pool holds %d messages, %d apart, %d bytes, %d lines", len(p.held), p.aside.count, p.bytes, len(p.backlog.lines))
		}
	})
}

// TestHandlerEndsItsGoroutine: a handler that does so, as t.FailNow does, takes no worker with it, and the message comes again.
func TestHandlerEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		times := 0
		sink := &fakeSink{handle: func(context.Context, message.Message) error {
			if times++; times <= 3 {
				runtime.Goexit()
			}
			return nil
		}}
		b := &fakeBroker{}
		p, _ := start(t, sink, Config{Concurrency: 1})
		p.Add(b.delivery("1", "", 0), b.delivery("2", "", 0))
		pass(time.Hour)
		if b.count("ack 1") != 1 || b.count("ack 2") != 1 || len(p.held) != 0 || len(sink.handled()) != 2 {
			t.Errorf("answers %q, %q are applied, the pool holds %d messages", b.told(), sink.handled(), len(p.held))
		}
	})
}

// TestInPlace: a broker that cannot deliver again. A failed message is tried again after its pause; other keys go on
// meanwhile; later messages of its key wait for it if they have no number.
func TestInPlace(t *testing.T) {
	for _, numbered := range []bool{false, true} {
		t.Run(fmt.Sprintf("numbered=%v", numbered), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries := 0
				began := time.Now()
				sink := &fakeSink{handle: func(_ context.Context, m message.Message) error {
					if m.ID != "a1" {
						return nil
					}
					tries++
					if after := time.Since(began); after != time.Duration(tries-1)*5*time.Second {
						t.Errorf("attempt %d after %v", tries, after)
					}
					if tries < 3 {
						return retry.After(errFailed, 5*time.Second)
					}
					return nil
				}}
				seq := func(n int64) int64 {
					if numbered {
						return n
					}
					return 0
				}
				b := &fakeBroker{}
				p, _ := start(t, sink, Config{Concurrency: 1, Batch: 1})
				p.Add(b.delivery("a1", "a", seq(1)), b.delivery("a2", "a", seq(2)), b.delivery("b1", "b", seq(1)))
				pass(7 * time.Second)
				p.Add(b.delivery("a3", "a", seq(3)), b.delivery("b2", "b", seq(2)))
				pass(time.Hour)
				if numbered {
					want(t, "handled", sink.handled(), "a1", "b1", "a2", "a1", "a3", "b2", "a1")
				} else {
					want(t, "handled", sink.handled(), "a1", "b1", "a1", "b2", "a1", "a2", "a3")
				}
				if len(p.held) != 0 || len(p.backlog.lines) != 0 || p.backlog.waiting != 0 {
					t.Errorf("the pool holds %d messages, %d lines", len(p.held), len(p.backlog.lines))
				}
			})
		})
	}
}

// TestRoomIsBoundedInMessagesAndBytes: how many messages a pool takes is bounded, and so are their bytes.
func TestRoomIsBoundedInMessagesAndBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		sink := &fakeSink{handle: func(context.Context, message.Message) error { <-free; return nil }}
		b := &fakeBroker{}
		p, _ := start(t, sink, Config{Prefetch: 4, PrefetchBytes: 10000, Concurrency: 1, Batch: 1})
		room := func(size, want int) {
			t.Helper()
			if n, err := p.Room(t.Context(), size); n != want || err != nil {
				t.Errorf("room for %d messages, %v; want %d", n, err, want)
			}
		}
		full := func(size int) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), slowAfter/10)
			defer cancel()
			if n, err := p.Room(ctx, size); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("room for %d messages, %v", n, err)
			}
		}
		room(1, 4)
		room(4000, 2)
		room(1<<20, 1) // a message that is larger than the bound comes alone
		p.Add(b.delivery("1", "", 0), b.delivery("2", "", 0), b.delivery("3", "", 0))
		room(1, 1)
		full(1 << 20)
		p.Add(b.delivery("4", "", 0))
		full(1)
		free <- struct{}{}
		room(1, 1)
		close(free)
		pass(time.Second)
		room(1, 4)
	})
}

// TestDropBeginsNoMoreMessages: what belongs to another process now is not begun, and what is in hand is waited for.
func TestDropBeginsNoMoreMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		sink := &fakeSink{handle: func(context.Context, message.Message) error { <-free; return nil }}
		b := &fakeBroker{}
		p, _ := start(t, sink, Config{Concurrency: 1, Batch: 1})
		first, second := b.delivery("1", "a", 1), b.delivery("2", "a", 2)
		p.Add(first, second, b.delivery("3", "b", 1))
		synctest.Wait()
		ended := make(chan error, 1)
		go func() {
			ended <- p.Drop(t.Context(), func(d *Delivery) bool { return d == first || d == second })
		}()
		synctest.Wait()
		select {
		case err := <-ended:
			t.Error("Drop has not waited for what is in hand:", err)
		default:
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.Drop(ctx, func(d *Delivery) bool { return d == first }); !errors.Is(err, context.DeadlineExceeded) {
			t.Error("the end of a context:", err)
		}
		close(free)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		pass(time.Second)
		want(t, "handled", sink.handled(), "1", "3")
		want(t, "answers", b.told(), "ack 1", "ack 3")
	})
}

// TestDrainReturnsTheRest: at the end, what is in hand is ended, and the rest goes back to the broker.
func TestDrainReturnsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &fakeSink{handle: func(ctx context.Context, _ message.Message) error {
			select {
			case <-time.After(10 * time.Second):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}}
		for _, drain := range []time.Duration{11 * time.Second, 3 * time.Second} {
			b := &fakeBroker{keeps: true}
			p, stop := start(t, sink, Config{Concurrency: 1, Batch: 1, Drain: drain})
			p.Add(b.delivery("1", "a", 1))
			synctest.Wait()
			p.Add(b.delivery("2", "a", 2))
			began := time.Now()
			if err := stop(); err != nil {
				t.Error(err)
			}
			took, told := time.Since(began), b.told()
			if drain > 10*time.Second {
				want(t, "answers", told, "ack 1", "again 2 0s")
				if took != 10*time.Second {
					t.Errorf("it took %v", took)
				}
			} else if took != drain || b.count("ack 1") != 0 || len(told) != 2 {
				t.Errorf("it took %v: %q", took, told)
			}
		}
	})
}

// TestExtendCoversThePool: the broker is told of all messages in the pool, also of those that no worker has.
func TestExtendCoversThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		sink := &fakeSink{handle: func(context.Context, message.Message) error { <-free; return nil }}
		b := &fakeBroker{}
		p, _ := start(t, sink, Config{Concurrency: 1, Batch: 1, Extend: 10 * time.Second})
		p.Add(b.delivery("1", "", 0), b.delivery("2", "", 0))
		pass(35 * time.Second)
		if b.count("extend 1") != 3 || b.count("extend 2") != 3 {
			t.Errorf("%q", b.told())
		}
		close(free)
		pass(time.Minute)
		if len(b.told()) != 8 {
			t.Errorf("%q", b.told())
		}
	})
}

// TestMalformedMessageIsADeadLetter: what cannot be decoded becomes a dead letter, beside the others of its batch.
func TestMalformedMessageIsADeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &fakeSink{}
		b := &fakeBroker{}
		p, _ := start(t, sink, Config{Concurrency: 1})
		bad := b.delivery("2", "", 0)
		bad.Malformed = errors.New("no id")
		p.Add(b.delivery("1", "", 0), bad, b.delivery("3", "", 0))
		pass(time.Second)
		want(t, "handled", sink.handled(), "1", "3")
		want(t, "refused", sink.refused, "2 malformed no id")
		want(t, "answers", b.told(), "ack 1", "ack 2", "ack 3")
	})
}
