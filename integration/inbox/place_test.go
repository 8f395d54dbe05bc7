package inbox

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/store"
)

// TestFirstMessageFails: FromAny, a key begins with its first message also if that fails: later ones wait for it.
func TestFirstMessageFails(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testFirstMessageFails[pgx.Tx], testFirstMessageFails[*sql.Tx])
}

func testFirstMessageFails[TX any](t *testing.T, g *fixture[TX]) {
	in, _ := g.inbox(t, inbox.Config{Order: inbox.InOrder, FromAny: true, Policy: soon(2), MaxPayload: 100})
	fn := g.failing(named("k-41", "l-41"))
	if o, err := in.Handle(t.Context(), ordered("k", 41), fn); !errors.Is(err, errRefused) {
		t.Errorf("%q, %v", o, err)
	}
	o, err := in.Handle(t.Context(), ordered("k", 42), g.book)
	want(t, o, err, inbox.Parked)
	o, err = in.Handle(t.Context(), ordered("k", 41), g.book)
	want(t, o, err, inbox.Applied)

	permanent := func(context.Context, TX, message.Message) error { return retry.Permanent(errRefused) }
	o, err = in.Handle(t.Context(), ordered("l", 41), permanent)
	want(t, o, err, inbox.DeadLettered)
	large := ordered("m", 41)
	large.Payload = make([]byte, 101)
	o, err = in.Handle(t.Context(), large, g.book)
	want(t, o, err, inbox.DeadLettered)
	for _, key := range []string{"l", "m"} {
		o, err = in.Handle(t.Context(), ordered(key, 42), g.book)
		want(t, o, err, inbox.Parked)
	}
	g.wantBooked(t, "k-41", "k-42")
}

// TestTooLargeInOrder: a message that is too large holds its place, and becomes a dead letter when its turn has come.
func TestTooLargeInOrder(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testTooLargeInOrder[pgx.Tx], testTooLargeInOrder[*sql.Tx])
}

func testTooLargeInOrder[TX any](t *testing.T, g *fixture[TX]) {
	in, _ := g.inbox(t, inbox.Config{Order: inbox.InOrder, MaxPayload: 100})
	large := ordered("k", 2)
	large.Payload = make([]byte, 101)
	if o, err := in.Handle(t.Context(), large, g.book); !errors.Is(err, inbox.ErrTooFarAhead) {
		t.Errorf("%q, %v", o, err)
	}
	if n := g.letters(t); n != 0 {
		t.Errorf("%d letters", n)
	}
	if got := outcomes(in.HandleBatch(t.Context(), []message.Message{large, ordered("k", 1), ordered("k", 3)}, g.book)); got != "dead_lettered applied parked" {
		t.Error(got)
	}
	if list, err := in.Gaps(t.Context()); err != nil || len(list) != 1 || !list[0].Dead || list[0].Seq != 2 {
		t.Errorf("%+v, %v", list, err)
	}
	_, err := deadletter.New(g.store, deadletter.Config{}).Discard(t.Context(), deadletter.Filter{}, "me", "it is too large")
	must(t, err)
	run(t, in, g.book, func() bool { return len(g.booked(t)) == 2 })
	g.wantBooked(t, "k-1", "k-3")
}

// TestMismatchHasNoPlace: to discard the letter of a message with the Seq of another one does not give up that one's place.
func TestMismatchHasNoPlace(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testMismatchHasNoPlace[pgx.Tx], testMismatchHasNoPlace[*sql.Tx])
}

func testMismatchHasNoPlace[TX any](t *testing.T, g *fixture[TX]) {
	in, _ := g.inbox(t, inbox.Config{Order: inbox.InOrder, Policy: soon(1)})
	fn := g.failing(named("k-2"))
	impostor := ordered("k", 2)
	impostor.ID = "impostor"
	marker := ordered("k", 2)
	marker.Type, marker.Payload = message.TypeSkipped, nil
	for _, c := range []struct {
		m message.Message
		o inbox.Outcome
	}{{ordered("k", 2), inbox.Parked}, {impostor, inbox.DeadLettered}, {marker, inbox.Parked}, {ordered("k", 1), inbox.Applied}} {
		o, err := in.Handle(t.Context(), c.m, fn)
		want(t, o, err, c.o)
	}
	if n := g.letters(t); n != 2 { // that of the impostor, and k-2 itself
		t.Errorf("%d letters", n)
	}
	letters := deadletter.New(g.store, deadletter.Config{})
	n, err := letters.Discard(t.Context(), deadletter.Filter{Class: "mismatch"}, "me", "it is an impostor")
	if n != 1 || err != nil {
		t.Errorf("%d discarded, %v", n, err)
	}
	g.exec(t, "update once_deadletter set redrive_at = NOW where state = 'dead'")
	run(t, in, g.book, func() bool { return g.letters(t) == 0 })
	g.wantBooked(t, "k-1", "k-2")
}

// TestMalformedIsNotRedriven: what was stored of a malformed message is not what was sent, and no handler gets it.
func TestMalformedIsNotRedriven(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testMalformedIsNotRedriven[pgx.Tx], testMalformedIsNotRedriven[*sql.Tx])
}

func testMalformedIsNotRedriven[TX any](t *testing.T, g *fixture[TX]) {
	in, told := g.inbox(t, inbox.Config{})
	m := event("a")
	m.Key = "a\nb"
	o, err := in.Handle(t.Context(), m, g.book)
	want(t, o, err, inbox.DeadLettered)
	g.exec(t, "update once_deadletter set redrive_at = NOW")
	run(t, in, g.book, func() bool { return len(told.of(inbox.EventDeadLettered)) == 2 || g.letters(t) == 0 })
	if n := g.letters(t); n != 1 {
		t.Errorf("%d letters", n)
	}
	g.wantBooked(t)
}

// TestBusyMessage: a message that waits too long for a lock, each time, holds up neither its batch nor what Run does.
func TestBusyMessage(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testBusyMessage[pgx.Tx], testBusyMessage[*sql.Tx])
}

func testBusyMessage[TX any](t *testing.T, g *fixture[TX]) {
	in, _ := g.inbox(t, inbox.Config{Policy: soon(1)})
	broken := g.failing(named("busy", "other"))
	if got := outcomes(in.HandleBatch(t.Context(), []message.Message{event("busy"), event("other")}, broken)); got != "dead_lettered dead_lettered" {
		t.Error(got)
	}
	busy := func(ctx context.Context, tx TX, m message.Message) error {
		if m.ID == "busy" || m.ID == "busy too" {
			return &store.Error{Kind: store.KindBusy, Err: errRefused}
		}
		return g.book(ctx, tx, m)
	}
	if got := outcomes(in.HandleBatch(t.Context(), []message.Message{event("a"), event("busy too"), event("b")}, busy)); got != "applied retry applied" {
		t.Error(got)
	}
	g.exec(t, "update once_deadletter set redrive_at = AGO(?) where event_id = 'busy'", time.Hour.Microseconds())
	g.exec(t, "update once_deadletter set redrive_at = NOW where event_id = 'other'")
	g.exec(t, "update once_inbox set processed_at = AGO(?) where event_id = 'a'", (1000 * time.Hour).Microseconds())
	run(t, in, busy, func() bool {
		return g.letters(t) == 1 && g.count(t, "select count(*) from once_inbox where event_id = 'a'") == 0
	})
	g.wantBooked(t, "a", "b", "other")
}
