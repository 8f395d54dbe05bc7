package outbox

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
)

// TestRelayDeliversInOrder: messages arrive as they were added, those of a key in order, and are deleted, or kept if that is asked for.
func TestRelayDeliversInOrder(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testRelay, testRelay)
}

func testRelay[TX any](t *testing.T, g *fixture[TX]) {
	const keys, each = 20, 30
	for i := range each {
		var list []message.Message
		for k := range keys {
			list = append(list, event("refunds", fmt.Sprintf("k%d", k), fmt.Sprintf("t%d", i)), event("mails", "", fmt.Sprintf("mail %d %d", k, i)))
		}
		g.mustAdd(t, list...)
	}
	b, e := newInbox(), newEvents()
	stop := start(t, g.relay(b, outbox.RelayConfig{Observer: e, Batch: 70}))
	b.waitFor(t, 2*keys*each)
	g.waitEmpty(t)
	late := event("refunds", "k3", "late")
	late.Headers = map[string]string{"content-type": "text/plain"}
	late.Trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	g.mustAdd(t, late)
	b.waitFor(t, 2*keys*each+1)
	g.waitEmpty(t)
	must(t, stop())
	b.check(t, 2*keys*each+1)
	got := b.arrived()
	if len(got) != 2*keys*each+1 {
		t.Errorf("%d messages have arrived", len(got))
	}
	last := got[len(got)-1]
	if last.Seq != each+1 || last.Delivery != 1 || string(last.Payload) != "late" || last.Headers["content-type"] != "text/plain" || last.Trace != late.Trace || last.CreatedAt.IsZero() {
		t.Errorf("%+v", last)
	}
	delivered := func(m outbox.Event) bool {
		return m.Type == outbox.EventDelivered && m.Message.Payload == nil && m.Message.Delivery == 1
	}
	if n := e.count(delivered); n != len(got) {
		t.Errorf("%d deliveries were told", n)
	}
	if n := e.count(func(e outbox.Event) bool {
		slow := e.Type == outbox.EventDatabase && strings.Contains(e.Err.Error(), "or the database is slow") // and the relay tries again
		return !slow && (e.Type == outbox.EventDatabase || e.Type == outbox.EventFailed)
	}); n > 0 {
		t.Errorf("%d failures: %v", n, e.list)
	}
}

// TestRelayKeeps: delivered messages are moved if they are kept.
func TestRelayKeeps(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testRelayKeeps, testRelayKeeps)
}

func testRelayKeeps[TX any](t *testing.T, g *fixture[TX]) {
	box := outbox.New[TX](g.store, outbox.Config{RetainDelivered: 24 * time.Hour})
	for i := range 10 {
		g.mustAdd(t, event("refunds", "k", fmt.Sprintf("t%d", i)), event("mails", "", "mail"))
	}
	b := newInbox()
	stop := start(t, g.relayOf(box, b, outbox.RelayConfig{}))
	b.waitFor(t, 20)
	g.waitEmpty(t)
	must(t, stop())
	b.check(t, 20)
	if n := g.count(t, "select count(*) from once_outbox_sent where sent_at >= created_at"); n != 20 {
		t.Errorf("%d messages are kept", n)
	}
}

// TestRelayNeedsTables: without them, Run says what to do.
func TestRelayNeedsTables(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testRelayNeedsTables, testRelayNeedsTables)
}

func testRelayNeedsTables[TX any](t *testing.T, g *fixture[TX]) {
	g.exec(t, "drop table once_outbox_paused")
	err := g.relay(newInbox(), outbox.RelayConfig{}).Run(context.Background())
	wantNotMigrated(t, err)
}
