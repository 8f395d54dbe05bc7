package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
)

// gate is a message at which an inbox waits, so that a relay stands still while it publishes.
type gate struct {
	reached, open chan struct{}
	reach         func()
}

func newGate() gate {
	reached := make(chan struct{})
	return gate{reached, make(chan struct{}), sync.OnceFunc(func() { close(reached) })}
}

func (g gate) refuse(m message.Message) error {
	if m.Type == "gate" {
		g.reach()
		<-g.open
	}
	return nil
}

// everyPart are messages of a topic of which each part gets some.
func everyPart(topic string) (list []message.Message) {
	for i := range 1000 {
		list = append(list, event(topic, "", fmt.Sprintf("message %d", i)))
	}
	return list
}

// TestRelayLatePredecessor: a transaction is slow and commits when the relay is beyond the id of its
// message; the next message of the key follows at once. They arrive in order.
func TestRelayLatePredecessor(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testRelayLatePredecessor, testRelayLatePredecessor)
}

func testRelayLatePredecessor[TX any](t *testing.T, g *fixture[TX]) {
	if !g.isServer() {
		t.Skip("SQLite lets one transaction write at a time, so the case cannot exist")
	}
	const keys = 20
	b := newInbox()
	start(t, g.relay(b, outbox.RelayConfig{}))
	slow, endSlow := g.begin(t)
	for k := range keys {
		must(t, g.box.Add(t.Context(), slow, event("refunds", fmt.Sprint(k), "first")))
	}
	// A relay reads again what its marks have passed a moment ago. So all queues move on until the ids of the slow
	// transaction are older than that: what the relay reads next is what follows above the marks.
	sent := 0
	for began := time.Now(); time.Since(began) < time.Second; {
		list := everyPart("refunds")
		g.mustAdd(t, list...)
		sent += len(list)
		b.waitFor(t, sent)
	}
	must(t, endSlow(true))
	for k := range keys {
		g.mustAdd(t, event("refunds", fmt.Sprint(k), "second"), event("refunds", fmt.Sprint(k), "third"))
	}
	b.waitFor(t, sent+3*keys)
	g.waitEmpty(t)
	for k := range keys {
		if got := b.types("refunds", fmt.Sprint(k)); got != "first second third" {
			t.Errorf("%s", got)
		}
	}
}

// TestRelayLateCommit: what commits below the mark, and has no successor, is found by the sweep.
func TestRelayLateCommit(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testRelayLateCommit, testRelayLateCommit)
}

func testRelayLateCommit[TX any](t *testing.T, g *fixture[TX]) {
	if !g.isServer() {
		t.Skip("SQLite lets one transaction write at a time, so the case cannot exist")
	}
	b := newInbox()
	start(t, g.relay(b, outbox.RelayConfig{}))
	tx, end := g.begin(t)
	must(t, g.box.Add(t.Context(), tx, event("mails", "", "late"), event("refunds", "k", "late")))
	list := everyPart("mails")
	g.mustAdd(t, list...)
	b.waitFor(t, len(list))
	must(t, end(true))
	b.waitFor(t, len(list)+2)
	g.waitEmpty(t)
}

// TestRelayPause: a paused topic or key is not delivered, by any relay, until it is resumed. Then it follows in order.
func TestRelayPause(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testRelayPause, testRelayPause)
}

func testRelayPause[TX any](t *testing.T, g *fixture[TX]) {
	const n = 10
	must(t, g.box.Pause(t.Context(), "mails", "", "the server moves"))
	must(t, g.box.Pause(t.Context(), "refunds", "a", "a person looks at it"))
	g.fill(t, n, "a", "b")
	b := newInbox()
	start(t, g.relay(b, outbox.RelayConfig{Batch: 8}))
	b.waitFor(t, n)
	g.fill(t, n, "b") // their marks are beyond what is paused
	b.waitFor(t, 2*n)
	if got := b.types("mails", "") + b.types("refunds", "a"); got != "" {
		t.Errorf("%s are delivered while they are paused", got)
	}
	_, err := g.box.Resume(t.Context(), "refunds", "a")
	must(t, err)
	b.waitFor(t, 3*n)
	if got := b.types("refunds", "a"); got != upTo(n) {
		t.Errorf("a resumed key: %s", got)
	}
	_, err = g.box.Resume(t.Context(), "mails", "")
	must(t, err)
	b.waitFor(t, 5*n)
	g.waitEmpty(t)
	b.check(t, 5*n)
	// While the relay runs.
	must(t, g.box.Pause(t.Context(), "refunds", "", "it stays"))
	for i := 0; ; i++ { // until the relay knows
		before := len(b.arrived())
		g.mustAdd(t, event("refunds", "c", "t"), event("mails", "", "mail"))
		b.wait(t, "the mail", func(got []message.Message) bool {
			return len(got) > before && got[len(got)-1].Topic == "mails" || len(got) > before+1
		})
		<-time.After(50 * time.Millisecond)
		if len(b.arrived()) == before+1 {
			break
		}
		if i > 1000 {
			t.Fatal("a topic that is paused goes on")
		}
	}
}

// TestRelayFence: a relay whose parts were taken while it was publishing removes nothing, and notes no failure: the relay that
// holds the parts delivers again.
func TestRelayFence(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testRelayFence, testRelayFence)
}

func testRelayFence[TX any](t *testing.T, g *fixture[TX]) {
	reached, open, done := make(chan string), make(chan struct{}), make(chan struct{})
	var mu sync.Mutex
	attempts := map[string][]int{}
	p := outbox.PublisherFunc(func(_ context.Context, messages []message.Message) []error {
		errs := make([]error, len(messages))
		for i, m := range messages {
			mu.Lock()
			attempts[m.Type] = append(attempts[m.Type], m.Delivery)
			first := len(attempts[m.Type]) == 1
			mu.Unlock()
			select {
			case reached <- m.Type:
				<-open
			case <-done:
			case <-t.Context().Done():
			}
			if m.Type == "refused" && first {
				errs[i] = errors.New("refused")
			}
		}
		return errs
	})
	start(t, g.relay(p, outbox.RelayConfig{Concurrency: 1, TTL: time.Second, Policy: soon(forever), Observer: newEvents()}))
	for _, kind := range []string{"taken", "refused"} {
		g.mustAdd(t, event("mails", "", kind))
		for n := 0; n < 2; { // the second time by the next holder, which is the same process
			select {
			case got := <-reached:
				if got == kind && n == 0 {
					g.exec(t, "update once_hold set node = '', fence = fence + 1 where work = ?", "outbox")
				}
				if got == kind { // the other one comes once more if the holder has noticed nothing when it tried again
					n++
				}
				open <- struct{}{}
			case <-time.After(patience):
				t.Fatalf("%s was removed by a relay that did not hold it", kind)
			}
		}
	}
	close(done)
	g.waitEmpty(t)
	mu.Lock()
	defer mu.Unlock()
	for kind, got := range attempts {
		if len(got) < 2 || slices.Max(got) != 1 { // no failure was noted
			t.Errorf("%s: attempts %v", kind, got)
		}
	}
}

// TestRelayDrains: when Run ends, deliveries on their way have their time, what they have delivered is
// removed, and the parts are let go.
func TestRelayDrains(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testRelayDrains, testRelayDrains)
}

func testRelayDrains[TX any](t *testing.T, g *fixture[TX]) {
	b := newInbox()
	at := newGate()
	b.setRefuse(at.refuse)
	type mark struct{}
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), mark{}, "v"))
	p := outbox.PublisherFunc(func(ctx context.Context, messages []message.Message) []error {
		if ctx.Value(mark{}) != "v" || ctx.Err() != nil {
			t.Errorf("the context of Publish: %v", ctx)
		}
		errs := b.Publish(ctx, messages)
		if ctx.Err() != nil {
			t.Error("a delivery on its way is cancelled")
		}
		return errs
	})
	ended := make(chan error, 1)
	go func() { ended <- g.relay(p, outbox.RelayConfig{}).Run(ctx) }()
	g.mustAdd(t, event("mails", "", "gate"))
	<-at.reached
	cancel()
	close(at.open)
	must(t, <-ended)
	if rows := g.rows(t); len(rows) > 0 {
		t.Errorf("%v was delivered, and is still there", rows)
	}
	if n := g.count(t, "select count(*) from once_hold_node"); n > 0 {
		t.Errorf("%d parts are not let go", n)
	}
	b.check(t, 1)
}

// TestRelayTopicBounds: a topic gets no more than its rate and its concurrency allow, and others do not wait for it.
func TestRelayTopicBounds(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testRelayTopicBounds, testRelayTopicBounds)
}

func testRelayTopicBounds[TX any](t *testing.T, g *fixture[TX]) {
	const n = 30
	g.fill(t, n, "a", "b", "c")
	b := newInbox()
	began := time.Now()
	var last time.Time
	underWay := make(chan struct{}, 1)
	p := outbox.PublisherFunc(func(ctx context.Context, messages []message.Message) []error {
		if messages[0].Topic == "refunds" {
			select {
			case underWay <- struct{}{}:
				defer func() { <-underWay }()
			default:
				t.Error("two deliveries of a topic at once")
			}
			last = time.Now()
		}
		return b.Publish(ctx, messages)
	})
	start(t, g.relay(p, outbox.RelayConfig{Topics: map[string]outbox.TopicConfig{"refunds": {Rate: 40, Concurrency: 1}}}))
	b.wait(t, "the other topic", func([]message.Message) bool { return b.typesOf("mails") == n })
	b.waitFor(t, 4*n)
	g.waitEmpty(t)
	b.check(t, 4*n)
	if most := 40 + 40*last.Sub(began).Seconds(); 3*n > int(most)+1 {
		t.Errorf("%d messages in %v", 3*n, last.Sub(began))
	}
}
