package deadletter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// orders is an inbox whose handler writes into a table, and fails on messages of the type "bad" until it is mended.
type orders struct {
	consumer

	mu     sync.Mutex
	mended bool
}

func (o *orders) mend() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mended = true
}

func (g *fixture) orders(t *testing.T, order inbox.Order) *orders {
	t.Helper()
	if g.count(t, "select count(*) from once_inbox") == 0 {
		g.exec(t, "create table effect (event varchar(100) not null)")
	}
	o := new(orders)
	once := retry.Policy{Attempts: 1}
	o.consumer = g.consumer(inbox.Config{Consumer: "billing", Order: order, Policy: &once}, func(ctx context.Context, r sqlplane.Runner, m message.Message) error {
		if _, err := r.Exec(ctx, g.text("insert into effect (event) values (?)", m.ID)); err != nil {
			return err
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		if m.Type == "bad" && !o.mended {
			return retry.Permanent(errors.New("customer 17 is unknown"))
		}
		return nil
	})
	return o
}

func event(n int, kind string) message.Message {
	return message.Message{ID: fmt.Sprintf("event-%d", n), Source: "shop", Topic: "t", Key: "k", Seq: int64(n), Type: kind, Payload: []byte("x")}
}

func (g *fixture) handled(t *testing.T, o *orders, m message.Message, wanted inbox.Outcome) {
	t.Helper()
	got, err := o.handle(t.Context(), m)
	must(t, err)
	want(t, got, wanted)
}

// effects returns what was applied, in order.
func (g *fixture) effects(t *testing.T) (list []string) {
	t.Helper()
	must(t, g.Pool().Query(t.Context(), g.text("select event from effect order by event"), func(row sqlplane.Row) error {
		var e string
		err := row.Scan(&e)
		list = append(list, e)
		return err
	}))
	return list
}

// TestRedriveInbox: a redrive applies the letter in its place, while its message is delivered again all the time: once.
func TestRedriveInbox(t *testing.T) {
	testenv.Prove(t)
	for name, order := range map[string]inbox.Order{"Once": inbox.AnyOrder, "InOrder": inbox.InOrder} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			on(t, func(t *testing.T, g *fixture) { testRedriveInbox(t, g, order) })
		})
	}
}

func testRedriveInbox(t *testing.T, g *fixture, order inbox.Order) {
	o := g.orders(t, order)
	g.handled(t, o, event(1, "good"), inbox.Applied)
	g.handled(t, o, event(2, "bad"), inbox.DeadLettered)
	later := inbox.Applied
	if order == inbox.InOrder {
		later = inbox.Parked
	}
	g.handled(t, o, event(3, "good"), later)
	g.handled(t, o, event(2, "bad"), inbox.DeadLettered)
	inBackground(t, o.run)
	r := g.redrive(t, deadletter.Filter{}, signed)
	eventually(t, "done total 1 waiting 0 applied 0 failed 1 discarded 0", func() any { return g.progress(t, r.UID) })
	o.mend()
	stop := inBackground(t, func(ctx context.Context) error {
		for ; ctx.Err() == nil; breathe() {
			if _, err := o.handle(ctx, event(2, "bad")); err != nil && ctx.Err() == nil && store.KindOf(err) == store.KindMisused {
				return err
			}
		}
		return nil
	})
	first := g.redrive(t, deadletter.Filter{}, signed)
	second := g.redrive(t, deadletter.Filter{}, signed)
	eventually(t, "done 1", func() any {
		a, err := g.letters().Progress(t.Context(), first.UID)
		must(t, err)
		b, err := g.letters().Progress(t.Context(), second.UID)
		must(t, err)
		if b.State != deadletter.RedriveDone {
			return b.State
		}
		return fmt.Sprintf("%s %d", a.State, a.Applied+b.Applied)
	})
	eventually(t, "[event-1 event-2 event-3]", func() any { return g.effects(t) })
	stop()
	want(t, g.effects(t), "[event-1 event-2 event-3]")
	g.handled(t, o, event(2, "bad"), inbox.Duplicate)
}

// TestDiscardInbox: the place of a discarded message is given up: its key goes on, and a redelivery of it is a duplicate.
func TestDiscardInbox(t *testing.T) {
	testenv.Both(t)
	for name, order := range map[string]inbox.Order{"Once": inbox.AnyOrder, "InOrder": inbox.InOrder} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			on(t, func(t *testing.T, g *fixture) { testDiscardInbox(t, g, order) })
		})
	}
}

func testDiscardInbox(t *testing.T, g *fixture, order inbox.Order) {
	o := g.orders(t, order)
	g.handled(t, o, event(1, "good"), inbox.Applied)
	g.handled(t, o, event(2, "bad"), inbox.DeadLettered)
	other := event(1, "good")
	if other.Payload = []byte("y"); order == inbox.AnyOrder {
		g.handled(t, o, other, inbox.DeadLettered) // the same ID, and another body
		n, err := g.letters().Discard(t.Context(), deadletter.Filter{Class: "mismatch"}, "ada", "a bug of the sender")
		must(t, err)
		want(t, n, 1)
		g.handled(t, o, event(2, "bad"), inbox.DeadLettered) // not the discarded one
	}
	later := inbox.Applied
	if order == inbox.InOrder {
		later = inbox.Parked
	}
	g.handled(t, o, event(3, "good"), later)
	n, err := g.letters().Discard(t.Context(), deadletter.Filter{Consumer: "billing"}, "ada", "a bug of the sender")
	must(t, err)
	want(t, n, 1)
	n, err = g.letters().Discard(t.Context(), deadletter.Filter{}, "ada", "again")
	must(t, err)
	want(t, n, 0)
	if seq := g.count(t, "select coalesce(max(seq), 2) from once_inbox_position"); seq != 2 {
		t.Fatalf("the key is at %d, want 2", seq)
	}
	inBackground(t, o.run)
	eventually(t, "[event-1 event-3]", func() any { return g.effects(t) })
	g.handled(t, o, event(2, "bad"), inbox.Duplicate)
	g.handled(t, o, event(4, "good"), inbox.Applied)
	l, attempts, err := g.letters().Show(t.Context(), g.uid(t, "event-2"))
	must(t, err)
	want(t, []any{l.State, l.Reason, len(l.Payload), len(attempts) > 0, time.Since(l.ResolvedAt) < time.Hour}, []any{"discarded", "a bug of the sender", 0, true, true})
}

// TestDiscardOtherMessage: to discard a message that has the Seq of another one does not give up the place of that one.
func TestDiscardOtherMessage(t *testing.T) {
	testenv.Both(t)
	on(t, testDiscardOtherMessage)
}

func testDiscardOtherMessage(t *testing.T, g *fixture) {
	o := g.orders(t, inbox.InOrder)
	g.handled(t, o, event(1, "good"), inbox.Applied)
	g.handled(t, o, event(3, "bad"), inbox.Parked)
	other := event(3, "good")
	other.ID = "event-3b"
	g.handled(t, o, other, inbox.DeadLettered) // and the place stays that of event-3
	g.handled(t, o, event(2, "good"), inbox.Applied)
	n, err := g.letters().Discard(t.Context(), deadletter.Filter{Class: "mismatch"}, "ada", "a bug of the sender")
	must(t, err)
	want(t, n, 1)
	if at := g.count(t, "select seq from once_inbox_position"); at != 2 {
		t.Fatalf("the key is at %d, want 2", at)
	}
	o.mend()
	g.redrive(t, deadletter.Filter{}, signed)
	inBackground(t, o.run)
	eventually(t, "[event-1 event-2 event-3]", func() any { return g.effects(t) })
}

func (g *fixture) uid(t *testing.T, event string) (uid string) {
	t.Helper()
	must(t, g.Pool().Query(t.Context(), g.text("select uid from once_deadletter where event_id = ?", event), func(row sqlplane.Row) error { return row.Scan(&uid) }))
	return uid
}
