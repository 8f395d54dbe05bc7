package inbox

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
)

// large returns message 1 of key k, whose payload a small inbox refuses.
func large() message.Message {
	m := ordered("k", 1)
	m.Payload = bytes.Repeat([]byte("x"), 101)
	return m
}

// whole is book that fails if the payload of a message is not the one that was sent.
func (g *fixture[TX]) whole(ctx context.Context, tx TX, m message.Message) error {
	if len(m.Payload) == 0 {
		return errors.New("the payload is missing")
	}
	return g.book(ctx, tx, m)
}

// TestTooLargeIsSentAgain: a message whose payload was too large is applied in place of its letter when it is sent again to an inbox with a larger MaxPayload, and no redrive gives the handler a message without its payload.
func TestTooLargeIsSentAgain(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testTooLargeIsSentAgain[pgx.Tx], testTooLargeIsSentAgain[*sql.Tx])
}

func testTooLargeIsSentAgain[TX any](t *testing.T, g *fixture[TX]) {
	e, err := once.NewEncrypter(bytes.Repeat([]byte{7}, 32))
	must(t, err)
	for i, cfg := range []inbox.Config{
		{Order: inbox.AnyOrder}, {Order: inbox.InOrder}, {Order: inbox.LatestVersion}, {Order: inbox.AnyOrder, Encrypter: e}, {Order: inbox.InOrder, Encrypter: e},
	} {
		g.exec(t, "delete from effect")
		cfg.Consumer = fmt.Sprint("consumer ", i)
		large := large()
		cfg.MaxPayload = 100
		small, _ := g.inbox(t, cfg)
		cfg.MaxPayload = 200
		in, told := g.inbox(t, cfg)
		for range 2 { // also the second delivery is refused as long as the payload is too large
			o, err := small.Handle(t.Context(), large, g.whole)
			want(t, o, err, inbox.DeadLettered)
		}
		if cfg.Order == inbox.InOrder {
			o, err := small.Handle(t.Context(), ordered("k", 2), g.whole)
			want(t, o, err, inbox.Parked)
		}
		g.exec(t, "update once_deadletter set redrive_at = NOW where state = 'dead'")
		run(t, in, g.book, func() bool { return len(told.of(inbox.EventDeadLettered)) == 1 || len(g.booked(t)) > 0 })
		g.wantBooked(t)

		other := event("other")
		if got := outcomes(in.HandleBatch(t.Context(), []message.Message{other, large}, g.whole)); got != "applied applied" {
			t.Errorf("%d: %s", i, got)
		}
		o, err := in.Handle(t.Context(), large, g.whole)
		want(t, o, err, inbox.Duplicate)
		wanted := []string{"other", "k-1"}
		if cfg.Order == inbox.InOrder {
			wanted = append(wanted, "k-2")
		}
		g.wantBooked(t, wanted...)
		state := "applied"
		if cfg.Order == inbox.LatestVersion { // the message is new, because its letter has no position
			g.exec(t, "update once_deadletter set redrive_at = NOW where state = 'dead'")
			run(t, in, g.whole, func() bool { return g.letters(t) == 0 })
			state = "stale"
		}
		if n := g.count(t, "select count(*) from once_deadletter where consumer = ? and state = ? and length(payload) = 0", cfg.Consumer, state); n != 1 {
			t.Errorf("%d: %d letters are %s", i, n, state)
		}
		if list := told.of(inbox.EventApplied); cfg.Order != inbox.LatestVersion && list[1].From != inbox.StateDeadLettered {
			t.Errorf("%d: the observer is told %q", i, list[1].From)
		}
	}
}

// TestRefusedTooLargeIsSentAgain: a message whose payload a receiver has not passed to the inbox is applied when it is sent again.
func TestRefusedTooLargeIsSentAgain(t *testing.T) {
	t.Parallel()
	g := newSQL(t, "SQLite")
	in, _ := g.inbox(t, inbox.Config{})
	m := event("a")
	m.Payload = nil
	must(t, in.Refuse(t.Context(), m, "too_large", errRefused))
	o, err := in.Handle(t.Context(), event("a"), g.whole)
	want(t, o, err, inbox.Applied)
	if n := g.letters(t); n != 0 {
		t.Errorf("%d letters", n)
	}
}

// TestMalformedIsSentAgain: a message that was malformed is applied in place of its letter when it is sent again in a valid form.
func TestMalformedIsSentAgain(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testMalformedIsSentAgain[pgx.Tx], testMalformedIsSentAgain[*sql.Tx])
}

func testMalformedIsSentAgain[TX any](t *testing.T, g *fixture[TX]) {
	in, _ := g.inbox(t, inbox.Config{})
	bad := event("a")
	bad.Type, bad.Payload = "refund\n", []byte("another payload")
	o, err := in.Handle(t.Context(), bad, g.book)
	want(t, o, err, inbox.DeadLettered)
	if got := outcomes(in.HandleBatch(t.Context(), []message.Message{event("a"), event("a"), event("b")}, g.book)); got != "applied duplicate applied" {
		t.Error(got)
	}
	g.wantBooked(t, "a", "b")
	if n := g.letters(t); n != 0 {
		t.Errorf("%d letters", n)
	}
	other := event("a")
	other.Payload = []byte("yet another payload")
	o, err = in.Handle(t.Context(), other, g.book) // the ID now belongs to the message that was applied
	want(t, o, err, inbox.DeadLettered)
	g.wantBooked(t, "a", "b")
}

// TestReplacementFails: a message that is sent again in place of its letter and fails in all attempts is a dead letter with its payload, which a redrive applies.
func TestReplacementFails(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testReplacementFails[pgx.Tx], testReplacementFails[*sql.Tx])
}

func testReplacementFails[TX any](t *testing.T, g *fixture[TX]) {
	bad := event("bad")
	bad.Type = "refund\n"
	for i, order := range []inbox.Order{inbox.AnyOrder, inbox.InOrder} {
		g.exec(t, "delete from effect")
		cfg := inbox.Config{Consumer: fmt.Sprint("consumer ", i), Order: order, MaxPayload: 100, Policy: soon(2)}
		small, _ := g.inbox(t, cfg)
		if got := outcomes(small.HandleBatch(t.Context(), []message.Message{large(), bad}, g.whole)); got != "dead_lettered dead_lettered" {
			t.Error(got)
		}
		cfg.MaxPayload = 0
		in, _ := g.inbox(t, cfg)
		again := []message.Message{large(), event("bad")}
		for _, wanted := range []string{"retry retry", "dead_lettered dead_lettered", "dead_lettered dead_lettered"} {
			if got := outcomes(in.HandleBatch(t.Context(), again, g.failing(named("k-1", "bad")))); got != wanted {
				t.Errorf("order %d: %s, want %s", order, got, wanted)
			}
		}
		g.wantBooked(t)
		if n := g.count(t, "select count(*) from once_deadletter where consumer = ? and class = 'exhausted' and state = 'dead' and length(payload) > 0", cfg.Consumer); n != 2 || g.letters(t) != 2 {
			t.Fatalf("order %d: %d letters have a payload, %d letters wait", order, n, g.letters(t))
		}
		g.exec(t, "update once_deadletter set redrive_at = NOW where state = 'dead'")
		run(t, in, g.whole, func() bool { return g.letters(t) == 0 })
		g.wantBooked(t, "k-1", "bad")
	}
}

// TestDiscardedIsNotReplaced: after a person has discarded a letter, its message is a duplicate when it is sent again.
func TestDiscardedIsNotReplaced(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testDiscardedIsNotReplaced[pgx.Tx], testDiscardedIsNotReplaced[*sql.Tx])
}

func testDiscardedIsNotReplaced[TX any](t *testing.T, g *fixture[TX]) {
	for i, order := range []inbox.Order{inbox.AnyOrder, inbox.InOrder} {
		cfg := inbox.Config{Consumer: fmt.Sprint("consumer ", i), Order: order, MaxPayload: 100}
		small, _ := g.inbox(t, cfg)
		o, err := small.Handle(t.Context(), large(), g.book)
		want(t, o, err, inbox.DeadLettered)
		_, err = deadletter.New(g.store, deadletter.Config{}).Discard(t.Context(), deadletter.Filter{Consumer: cfg.Consumer}, "ada", "not needed")
		must(t, err)
		cfg.MaxPayload = 0
		in, _ := g.inbox(t, cfg)
		o, err = in.Handle(t.Context(), large(), g.book)
		want(t, o, err, inbox.Duplicate)
	}
	g.wantBooked(t)
}

// TestReplacementRaces: if two nodes get a message that is sent again, while a redrive tries its letter and a person discards the letter, the message is applied once or is discarded, and not both.
func TestReplacementRaces(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testReplacementRaces[pgx.Tx], testReplacementRaces[*sql.Tx])
}

func testReplacementRaces[TX any](t *testing.T, g *fixture[TX]) {
	for round := range 6 {
		g.exec(t, "delete from effect")
		cfg := inbox.Config{Consumer: fmt.Sprint("consumer ", round), Order: inbox.Order(round % 2), MaxPayload: 100}
		small, _ := g.inbox(t, cfg)
		o, err := small.Handle(t.Context(), large(), g.whole)
		want(t, o, err, inbox.DeadLettered)
		g.exec(t, "update once_deadletter set redrive_at = NOW where state = 'dead'")
		cfg.MaxPayload = 0
		ctx, cancel := context.WithCancel(t.Context())
		var nodes, runs sync.WaitGroup
		for range 2 {
			in, _ := g.inbox(t, cfg)
			runs.Go(func() { _ = in.Run(ctx, g.whole) })
			nodes.Go(func() {
				for end := time.Now().Add(patience); ; { // as a broker delivers
					o, err := in.Handle(t.Context(), large(), g.whole)
					if err == nil {
						if o != inbox.Applied && o != inbox.Duplicate {
							t.Errorf("round %d: %q", round, o)
						}
						return
					}
					if time.Now().After(end) {
						t.Errorf("round %d: %v", round, err)
						return
					}
				}
			})
		}
		nodes.Go(func() {
			if round < 2 { // without a discard, the message must be applied
				return
			}
			_, err := deadletter.New(g.store, deadletter.Config{}).Discard(t.Context(), deadletter.Filter{Consumer: cfg.Consumer}, "ada", "not needed")
			if err != nil {
				t.Errorf("round %d: %v", round, err)
			}
		})
		nodes.Wait()
		cancel()
		runs.Wait()
		applied, discarded := len(g.booked(t)), g.count(t, "select count(*) from once_deadletter where consumer = ? and state = 'discarded'", cfg.Consumer)
		if applied+discarded != 1 || round < 2 && applied != 1 || g.letters(t) != 0 {
			t.Errorf("round %d: %d applied, %d discarded, %d letters wait", round, applied, discarded, g.letters(t))
		}
	}
}
