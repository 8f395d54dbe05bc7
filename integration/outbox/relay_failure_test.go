package outbox

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/retry"
)

// forever is a number of attempts that no test makes, however slow the machine is.
const forever = math.MaxInt

// soon tries again after a moment, and gives up after several attempts.
func soon(attempts int) *retry.Policy {
	return &retry.Policy{Attempts: attempts, Base: time.Millisecond, Cap: 5 * time.Millisecond, Total: -1}
}

// fill adds n messages to each of some keys, and n without a key.
func (g *fixture[TX]) fill(t *testing.T, n int, keys ...string) {
	t.Helper()
	for i := range n {
		list := []message.Message{event("mails", "", fmt.Sprintf("t%d", i+1))}
		for _, k := range keys {
			list = append(list, event("refunds", k, fmt.Sprintf("t%d", i+1)))
		}
		g.mustAdd(t, list...)
	}
}

// upTo are the types that fill has given.
func upTo(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("t%d", i+1))
	}
	return strings.Join(list, " ")
}

// TestRelayBlockedKey: a message that fails blocks its key and nothing else, and what waits for it follows in order. Attempts are
// stored, so that another relay counts on.
func TestRelayBlockedKey(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testRelayBlockedKey, testRelayBlockedKey)
}

func testRelayBlockedKey[TX any](t *testing.T, g *fixture[TX]) {
	const n = 40
	g.fill(t, n, "bad", "good", "fine")
	b, e := newInbox(), newEvents()
	var attempts atomic.Int64
	b.setRefuse(func(m message.Message) error {
		if m.Key != "bad" {
			return nil
		}
		if m.Type != "t1" || m.Seq != 1 {
			t.Errorf("%s is delivered before the head of its key", m.Type)
		}
		if want := attempts.Add(1); m.Delivery != int(want) {
			t.Errorf("attempt %d, want %d", m.Delivery, want)
		}
		return errors.New("refused\x00" + strings.Repeat("ä", 3000))
	})
	// A batch has room for several messages of the key.
	stop := start(t, g.relay(b, outbox.RelayConfig{Policy: soon(forever), Observer: e}))
	b.waitFor(t, 3*n)
	e.wait(t, "a third attempt", func(e outbox.Event) bool { return e.Type == outbox.EventFailed && e.Message.Delivery == 3 })
	must(t, stop())
	if got := b.types("refunds", "good"); got != upTo(n) {
		t.Errorf("the other key: %s", got)
	}
	if rows := g.count(t, "select count(*) from once_outbox_failed where attempts = ? and next_at is not null", attempts.Load()); rows != 1 {
		t.Errorf("%d failures with %d attempts are stored", rows, attempts.Load())
	}
	if rows := g.count(t, "select count(*) from once_outbox_failed"); rows != 1 {
		t.Errorf("%d messages have failed, want the head of the key alone", rows)
	}
	// Another relay, and then the destination takes the message.
	before := attempts.Load()
	start(t, g.relay(b, outbox.RelayConfig{Batch: 16, Policy: soon(forever), Observer: e}))
	e.wait(t, "an attempt of the second relay", func(e outbox.Event) bool { return e.Type == outbox.EventFailed && int64(e.Message.Delivery) > before })
	b.setRefuse(nil)
	b.waitFor(t, 4*n)
	g.waitEmpty(t)
	if got := b.types("refunds", "bad"); got != upTo(n) {
		t.Errorf("the key that has failed: %s", got)
	}
	if got := b.arrived()[3*n]; got.Key != "bad" || got.Delivery <= int(before) {
		t.Errorf("attempt %d after %d", got.Delivery, before)
	}
	b.check(t, 4*n)
}

// TestRelayStops: a message that is given up stops its key until a person resumes or skips it.
func TestRelayStops(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testRelayStops, testRelayStops)
}

func testRelayStops[TX any](t *testing.T, g *fixture[TX]) {
	const n = 5
	g.fill(t, n, "permanent", "tired", "fine")
	b, e := newInbox(), newEvents()
	b.setRefuse(func(m message.Message) error {
		switch {
		case m.Key == "permanent" && m.Type != message.TypeSkipped:
			return retry.Permanent(errors.New("never"))
		case m.Key == "tired":
			return errors.New("not now")
		}
		return nil
	})
	start(t, g.relay(b, outbox.RelayConfig{Policy: soon(3), Observer: e}))
	stopped := func(key string, attempt int) outbox.Event {
		return e.wait(t, key+" to stop", func(e outbox.Event) bool {
			return e.Type == outbox.EventStopped && e.Message.Key == key && e.Message.Delivery == attempt
		})
	}
	head := stopped("permanent", 1).Message
	stopped("tired", 3)
	b.waitFor(t, 2*n)
	if rows := g.count(t, "select count(*) from once_outbox_failed where next_at is null"); rows != 2 {
		t.Errorf("%d messages are stopped", rows)
	}
	b.setRefuse(nil)
	must(t, g.box.Skip(t.Context(), head.ID, "it is of no use"))
	_, err := g.box.Resume(t.Context(), "refunds", "tired")
	must(t, err)
	b.waitFor(t, 4*n)
	g.waitEmpty(t)
	if got := b.types("refunds", "permanent"); got != strings.Replace(upTo(n), "t1", message.TypeSkipped, 1) {
		t.Errorf("a skipped message: %s", got)
	}
	if got := b.types("refunds", "tired"); got != upTo(n) {
		t.Errorf("a resumed message: %s", got)
	}
	b.check(t, 4*n)
	for _, m := range b.arrived() {
		if m.Type == message.TypeSkipped && m.ID != head.ID {
			t.Errorf("%s was skipped, not %s", m.ID, head.ID)
		}
	}
}

// TestRelayUnavailable: a destination that is down costs no attempt, and nothing is written.
func TestRelayUnavailable(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testRelayUnavailable, testRelayUnavailable)
}

func testRelayUnavailable[TX any](t *testing.T, g *fixture[TX]) {
	const n = 20
	g.fill(t, n, "a", "b")
	b, e := newInbox(), newEvents()
	b.setRefuse(func(m message.Message) error {
		if m.Seq > 7 {
			return fmt.Errorf("wrapped: %w", outbox.Unavailable(errors.New("down")))
		}
		return nil
	})
	start(t, g.relay(b, outbox.RelayConfig{Batch: 16, Concurrency: 2, Policy: soon(2), Observer: e}))
	e.wait(t, "the destination to be down", unavailable)
	b.wait(t, "what is not refused", func(got []message.Message) bool {
		keyed := 0
		for _, m := range got {
			if m.Key != "" {
				keyed++
			}
		}
		return keyed >= 14
	})
	if rows := g.count(t, "select count(*) from once_outbox_failed"); rows != 0 {
		t.Errorf("%d failures are stored", rows)
	}
	b.setRefuse(nil)
	b.waitFor(t, 3*n)
	g.waitEmpty(t)
	b.check(t, 3*n)
	for _, m := range b.arrived() {
		if m.Delivery != 1 {
			t.Errorf("%s %s is attempt %d", m.Key, m.Type, m.Delivery)
		}
	}
}

func unavailable(e outbox.Event) bool { return e.Type == outbox.EventUnavailable }

// TestRelayBreaker: an open breaker keeps messages back, and is told how deliveries end.
func TestRelayBreaker(t *testing.T) {
	t.Parallel()
	g := newSQL(t, "SQLite")
	g.fill(t, 3, "a")
	b, e, breaker := newInbox(), newEvents(), new(switchBreaker)
	breaker.open.Store(true)
	start(t, g.relay(b, outbox.RelayConfig{Policy: soon(2), Observer: e, Breaker: breaker}))
	e.wait(t, "the breaker", unavailable)
	if n := len(b.arrived()); n > 0 {
		t.Errorf("%d messages have arrived", n)
	}
	b.setRefuse(func(message.Message) error { return outbox.Unavailable(errors.New("down")) })
	breaker.open.Store(false)
	for breaker.bad.Load() == 0 {
		<-time.After(time.Millisecond)
	}
	b.setRefuse(nil)
	b.waitFor(t, 6)
	g.waitEmpty(t)
	if breaker.good.Load() == 0 {
		t.Error("the breaker is not told of deliveries")
	}
}

type switchBreaker struct {
	open      atomic.Bool
	good, bad atomic.Int64
}

func (b *switchBreaker) Allow() (func(retry.Health), error) {
	if b.open.Load() {
		return nil, errors.New("open")
	}
	return func(h retry.Health) {
		switch h {
		case retry.HealthGood:
			b.good.Add(1)
		case retry.HealthBad:
			b.bad.Add(1)
		}
	}, nil
}

// TestRelayBadPublisher: a publisher that panics, answers nonsense, answers late or never costs attempts, and no messages.
func TestRelayBadPublisher(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testRelayBadPublisher, testRelayBadPublisher)
}

func testRelayBadPublisher[TX any](t *testing.T, g *fixture[TX]) {
	const n = 10
	g.fill(t, n, "a", "b", "c")
	b, e := newInbox(), newEvents()
	const panics, nonsense, silent, late, good = 0, 1, 2, 3, 4
	var mood atomic.Int64 // each but good lasts until the relay has noticed it: a slow machine may take an answer for none
	var hangs atomic.Bool
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	p := outbox.PublisherFunc(func(ctx context.Context, messages []message.Message) []error {
		switch mood.Load() {
		case panics:
			panic("a bug")
		case nonsense:
			return make([]error, len(messages)+1)
		case silent:
			if hangs.CompareAndSwap(false, true) {
				<-never // it ignores its context
			}
			return []error{errRefused} // one for many messages, so that it lasts
		case late:
			<-ctx.Done() // it has delivered all, and says so late
			mood.CompareAndSwap(late, good)
		}
		b.Publish(ctx, messages)
		return nil
	})
	stop := start(t, g.relay(p, outbox.RelayConfig{Policy: soon(forever), Observer: e, Timeout: 200 * time.Millisecond, Concurrency: 2}))
	for after, text := range []string{"a bug", "errors for", "has not returned"} {
		e.wait(t, text, func(e outbox.Event) bool {
			return e.Type == outbox.EventFailed && strings.Contains(e.Err.Error(), text)
		})
		mood.Store(int64(after) + 1)
	}
	b.wait(t, "every message", func(got []message.Message) bool {
		ids := map[string]bool{}
		for _, m := range got {
			ids[m.ID] = true
		}
		return len(ids) == 4*n
	})
	g.waitEmpty(t)
	must(t, stop())
	b.check(t, 4*n)
}

// TestRelayScheduleIsKept: a message that has failed is not tried before its time because others of its key
// are added.
func TestRelayScheduleIsKept(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testRelayScheduleIsKept, testRelayScheduleIsKept)
}

func testRelayScheduleIsKept[TX any](t *testing.T, g *fixture[TX]) {
	b, e := newInbox(), newEvents()
	var attempts atomic.Int64
	b.setRefuse(func(m message.Message) error {
		if m.Key != "bad" {
			return nil
		}
		attempts.Add(1)
		return retry.After(errRefused, time.Hour)
	})
	g.mustAdd(t, event("refunds", "bad", "t1"))
	start(t, g.relay(b, outbox.RelayConfig{Concurrency: 1, Policy: soon(forever), Observer: e}))
	e.wait(t, "the failure", func(e outbox.Event) bool { return e.Type == outbox.EventFailed })
	for i := range 5 { // each is delivered after another look at the key
		g.mustAdd(t, event("refunds", "bad", "later"), event("refunds", "fine", "t"))
		b.waitFor(t, i+1)
	}
	if n := attempts.Load(); n != 1 {
		t.Errorf("%d attempts, want one within the hour", n)
	}
}
