package outbox

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/retry"
)

// TestRelayTopicDown: a topic whose destination does not exist waits alone, however many of its messages come first.
func TestRelayTopicDown(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testRelayTopicDown, testRelayTopicDown)
}

func testRelayTopicDown[TX any](t *testing.T, g *fixture[TX]) {
	const n, keys = 40, 5
	for i := range n {
		list := []message.Message{event("gone", "", "t")}
		for k := range keys {
			list = append(list, event("gone", fmt.Sprintf("k%d", k), fmt.Sprintf("t%d", i+1)))
		}
		g.mustAdd(t, list...)
	}
	g.fill(t, n, "k0", "k1")
	b, e := newInbox(), newEvents()
	b.setRefuse(func(m message.Message) error {
		if m.Topic == "gone" {
			return outbox.Unavailable(errors.New("no such topic"))
		}
		return nil
	})
	start(t, g.relay(b, outbox.RelayConfig{Batch: 16, Concurrency: 1, Policy: soon(2), Observer: e}))
	b.waitFor(t, 3*n)
	e.wait(t, "the topic to be down", func(e outbox.Event) bool { return unavailable(e) && e.Message.Topic == "gone" })
	g.mustAdd(t, event("refunds", "k0", fmt.Sprintf("t%d", n+1)), event("gone", "k0", fmt.Sprintf("t%d", n+1)))
	b.waitFor(t, 3*n+1)
	if rows := g.count(t, "select count(*) from once_outbox_failed"); rows != 0 {
		t.Errorf("%d failures are stored", rows)
	}
	b.setRefuse(nil)
	const all = 3*n + 1 + n*(keys+1) + 1
	b.waitFor(t, all)
	g.waitEmpty(t)
	b.check(t, all)
	for k := range keys {
		want := n
		if k == 0 {
			want++
		}
		if got := b.types("gone", fmt.Sprintf("k%d", k)); got != upTo(want) {
			t.Errorf("k%d: %s", k, got)
		}
	}
	for _, m := range b.arrived() {
		if m.Delivery != 1 {
			t.Errorf("%s %s is attempt %d", m.Key, m.Type, m.Delivery)
		}
	}
}

// TestRelayResumeCountsAnew: what a person has resumed is tried as if it had not failed before, also if its time was over.
func TestRelayResumeCountsAnew(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testRelayResumeCountsAnew, testRelayResumeCountsAnew)
}

func testRelayResumeCountsAnew[TX any](t *testing.T, g *fixture[TX]) {
	g.mustAdd(t, event("refunds", "k", "t1"))
	b, e := newInbox(), newEvents()
	b.setRefuse(func(message.Message) error { return retry.Permanent(errRefused) })
	stop := start(t, g.relay(b, outbox.RelayConfig{Observer: e}))
	e.wait(t, "the message to stop", func(e outbox.Event) bool { return e.Type == outbox.EventStopped })
	must(t, stop())
	statement := g.text("update once_outbox_failed set failed_at = AGO(?)", (2 * time.Hour).Microseconds())
	g.exec(t, statement.SQL, statement.Args...)
	_, err := g.box.Resume(t.Context(), "refunds", "k")
	must(t, err)
	e = newEvents()
	b.setRefuse(func(message.Message) error { return errRefused })
	policy := soon(forever)
	policy.Total = time.Hour
	start(t, g.relay(b, outbox.RelayConfig{Observer: e, Policy: policy}))
	e.wait(t, "a failure", func(e outbox.Event) bool { return e.Type == outbox.EventFailed || e.Type == outbox.EventStopped })
	if n := e.count(func(e outbox.Event) bool { return e.Type == outbox.EventStopped }); n > 0 {
		t.Error("it is given up at once")
	}
	b.setRefuse(nil)
	b.waitFor(t, 1)
	g.waitEmpty(t)
}

// TestRelaySkipMeanwhile: a message that fails while it is being skipped leaves no failure for the marker in its place.
func TestRelaySkipMeanwhile(t *testing.T) {
	t.Parallel()
	g := newPgx(t)
	g.mustAdd(t, event("refunds", "k", "t1"), event("refunds", "k", "t2"))
	b, e := newInbox(), newEvents()
	called, answer := make(chan struct{}), make(chan struct{})
	first := true
	p := outbox.PublisherFunc(func(ctx context.Context, messages []message.Message) []error {
		if !first {
			return b.Publish(ctx, messages)
		}
		first = false
		close(called)
		<-answer
		errs := make([]error, len(messages))
		for i := range errs {
			errs[i] = retry.Permanent(errRefused)
		}
		return errs
	})
	start(t, g.relay(p, outbox.RelayConfig{Observer: e, Concurrency: 1}))
	<-called
	tx, end := g.begin(t)
	skip := func(tx pgx.Tx, query string, args ...any) {
		_, err := tx.Exec(t.Context(), query, args...)
		must(t, err)
	}
	skip(tx, "update once_outbox set event_type = $1, payload = '' where event_type = 't1'", message.TypeSkipped) // as Skip does
	skip(tx, "update once_outbox_failed set next_at = statement_timestamp()")
	close(answer)
	stopped := func(e outbox.Event) bool { return e.Type == outbox.EventStopped || e.Type == outbox.EventFailed }
	for g.count(t, "select count(*) from pg_locks where not granted") == 0 && e.count(stopped) == 0 {
		<-time.After(time.Millisecond)
	}
	must(t, end(true))
	b.waitFor(t, 2)
	g.waitEmpty(t)
	if got := b.types("refunds", "k"); got != message.TypeSkipped+" t2" {
		t.Error(got)
	}
	if n := e.count(stopped); n > 0 {
		t.Errorf("%d failures were told", n)
	}
}

// TestRelayGivesItsPartsUp: a relay that reaches nothing gives its parts up while another one delivers, and all messages arrive.
func TestRelayGivesItsPartsUp(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testRelayGivesItsPartsUp, testRelayGivesItsPartsUp)
}

func testRelayGivesItsPartsUp[TX any](t *testing.T, g *fixture[TX]) {
	b, e := newInbox(), newEvents()
	down := outbox.PublisherFunc(func(_ context.Context, messages []message.Message) []error {
		errs := make([]error, len(messages))
		for i := range errs {
			errs[i] = outbox.Unavailable(errors.New("no route"))
		}
		return errs
	})
	const ttl = 500 * time.Millisecond
	start(t, g.relay(down, outbox.RelayConfig{Observer: e, TTL: ttl}))
	e.wait(t, "all parts", func(e outbox.Event) bool { return e.Type == outbox.EventTaken && e.Parts == 64 })
	start(t, g.relay(b, outbox.RelayConfig{TTL: ttl}))
	n := 0
	yielded := func(e outbox.Event) bool { return e.Type == outbox.EventTaken && e.Parts == 0 }
	for end := time.Now().Add(patience); e.count(yielded) == 0; {
		for i := range 8 {
			g.mustAdd(t, event(fmt.Sprint("topic", i), fmt.Sprint(n), "t"))
			n++
		}
		if <-time.After(20 * time.Millisecond); time.Now().After(end) {
			t.Fatal("it keeps its parts")
		}
	}
	b.waitFor(t, n)
	b.check(t, n)
}
