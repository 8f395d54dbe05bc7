package inbox

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
)

// anywhere is the configuration of an inbox whose keys begin with any Seq.
func anywhere() inbox.Config {
	return inbox.Config{Order: inbox.InOrder, FromAny: true, MaxPayload: 100}
}

// wantFirstKept delivers the message after the first one of key k, and then the first one again: both must be applied.
func wantFirstKept[TX any](t *testing.T, g *fixture[TX], in *inbox.Inbox[TX], first int64) {
	t.Helper()
	o, err := in.Handle(t.Context(), ordered("k", first+1), g.book)
	want(t, o, err, inbox.Parked)
	o, err = in.Handle(t.Context(), ordered("k", first), g.book)
	want(t, o, err, inbox.Applied)
	g.wantBooked(t, ordered("k", first).ID, ordered("k", first+1).ID)
}

// TestKeyBeginsWithAFailedFirstMessage: with FromAny, a key begins with its first message also if this message has Seq 1 and fails, and another process does not begin the key with a later message.
func TestKeyBeginsWithAFailedFirstMessage(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testKeyBeginsWithAFailedFirstMessage[pgx.Tx], testKeyBeginsWithAFailedFirstMessage[*sql.Tx])
}

func testKeyBeginsWithAFailedFirstMessage[TX any](t *testing.T, g *fixture[TX]) {
	for _, first := range []int64{1, 2, 7} {
		g.exec(t, "delete from effect")
		g.exec(t, "delete from once_inbox_position")
		in, _ := g.inbox(t, anywhere())
		if o, err := in.Handle(t.Context(), ordered("k", first), g.failing(named(ordered("k", first).ID))); !errors.Is(err, errRefused) {
			t.Errorf("%q, %v", o, err)
		}
		wantFirstKept(t, g, in, first)
	}

	// The other process handles the later message after the failed handler, and before the failed attempt is stored.
	other, _ := g.inbox(t, anywhere())
	tried := false
	s := &pointStore[TX]{Store: g.store, at: func(name string) error {
		if name == "within" && !tried {
			tried = true
			o, err := other.Handle(t.Context(), ordered("l", 8), g.book)
			want(t, o, err, inbox.Parked)
		}
		return nil
	}}
	in, _ := g.inboxOn(once.New(s, once.Config{Observer: once.Discard}), anywhere())
	if o, err := in.Handle(t.Context(), ordered("l", 7), g.failing(named("l-7"))); !errors.Is(err, errRefused) || !tried {
		t.Errorf("%q, %v, %t", o, err, tried)
	}
}

// TestKeyBeginsWithAnInterruptedFirstMessage: with FromAny, a key begins with its first message also if the transaction of its attempt is rolled back: the database fails for the handler or for all calls, the context of the caller ends, the handler takes too long, or an earlier message of the batch hangs.
func TestKeyBeginsWithAnInterruptedFirstMessage(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testKeyBeginsWithAnInterruptedFirstMessage[pgx.Tx], testKeyBeginsWithAnInterruptedFirstMessage[*sql.Tx])
}

func testKeyBeginsWithAnInterruptedFirstMessage[TX any](t *testing.T, g *fixture[TX]) {
	for name, interrupted := range map[string]func(t *testing.T, down *bool, in *inbox.Inbox[TX]) error{
		"the database fails for the handler": func(t *testing.T, _ *bool, in *inbox.Inbox[TX]) error {
			t.Helper()
			_, err := in.Handle(t.Context(), ordered("k", 1), func(context.Context, TX, message.Message) error { return unavailable() })
			return err
		},
		"the database is down": func(t *testing.T, down *bool, in *inbox.Inbox[TX]) error {
			t.Helper()
			*down = true
			defer func() { *down = false }()
			_, err := in.Handle(t.Context(), ordered("k", 1), g.book)
			return err
		},
		"the database is down from the handler on": func(t *testing.T, down *bool, in *inbox.Inbox[TX]) error {
			t.Helper()
			defer func() { *down = false }()
			_, err := in.Handle(t.Context(), ordered("k", 1), func(context.Context, TX, message.Message) error {
				*down = true
				return errRefused
			})
			return err
		},
		"the caller ends": func(t *testing.T, _ *bool, in *inbox.Inbox[TX]) error {
			t.Helper()
			ctx, cancel := context.WithCancel(t.Context())
			_, err := in.Handle(ctx, ordered("k", 1), func(context.Context, TX, message.Message) error {
				cancel()
				return ctx.Err()
			})
			return err
		},
		"the handler takes too long": func(t *testing.T, _ *bool, in *inbox.Inbox[TX]) error {
			t.Helper()
			_, err := in.Handle(t.Context(), ordered("k", 1), func(context.Context, TX, message.Message) error { return inbox.ErrHandlerTimeout })
			return err
		},
		"an earlier message of the batch hangs": func(t *testing.T, _ *bool, in *inbox.Inbox[TX]) error {
			t.Helper()
			return in.HandleBatch(t.Context(), []message.Message{ordered("hangs", 1), ordered("k", 1)}, func(_ context.Context, _ TX, m message.Message) error {
				if m.Key != "hangs" {
					t.Error("the handler was called")
				}
				return inbox.ErrHandlerTimeout
			})[1].Err
		},
	} {
		t.Run(name, func(t *testing.T) {
			g.exec(t, "delete from effect")
			g.exec(t, "delete from once_inbox_position")
			down := false
			s := &pointStore[TX]{Store: g.store, at: func(string) error {
				if down {
					return errInjected
				}
				return nil
			}}
			in, _ := g.inboxOn(once.New(s, once.Config{Observer: once.Discard}), anywhere())
			if err := interrupted(t, &down, in); err == nil {
				t.Fatal("the message was acknowledged")
			}
			if name != "the database is down" && name != "the database is down from the handler on" { // the beginning is stored, so another process knows it
				in, _ = g.inbox(t, anywhere())
			}
			wantFirstKept(t, g, in, 1)
		})
	}

	// A beginning that could not be stored is stored by a later call, also if that call is about another key.
	down := true
	s := &pointStore[TX]{Store: g.store, at: func(string) error {
		if down {
			return errInjected
		}
		return nil
	}}
	in, _ := g.inboxOn(once.New(s, once.Config{Observer: once.Discard}), anywhere())
	if _, err := in.Handle(t.Context(), ordered("l", 7), g.book); err == nil {
		t.Error("the message was acknowledged")
	}
	down = false
	o, err := in.Handle(t.Context(), ordered("m", 1), g.book)
	want(t, o, err, inbox.Applied)
	other, _ := g.inbox(t, anywhere())
	o, err = other.Handle(t.Context(), ordered("l", 8), g.book)
	want(t, o, err, inbox.Parked)
}

// TestKeyBeginsWithATooLargeMessage: with FromAny, a first message that is too large becomes the dead letter for which its key waits, also if a later message is in the same batch.
func TestKeyBeginsWithATooLargeMessage(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testKeyBeginsWithATooLargeMessage[pgx.Tx], testKeyBeginsWithATooLargeMessage[*sql.Tx])
}

func testKeyBeginsWithATooLargeMessage[TX any](t *testing.T, g *fixture[TX]) {
	in, _ := g.inbox(t, anywhere())
	large := ordered("k", 7)
	large.Payload = make([]byte, 101)
	if got := outcomes(in.HandleBatch(t.Context(), []message.Message{large, ordered("k", 8)}, g.book)); got != "dead_lettered parked" {
		t.Error(got)
	}
}

// TestStartAtOne: StartAt with Seq 1 makes a key begin with Seq 1, also with FromAny; a second call changes nothing.
func TestStartAtOne(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testStartAtOne[pgx.Tx], testStartAtOne[*sql.Tx])
}

func testStartAtOne[TX any](t *testing.T, g *fixture[TX]) {
	operator, _ := g.inbox(t, inbox.Config{Order: inbox.InOrder})
	in, _ := g.inbox(t, anywhere())
	for range 2 {
		must(t, operator.StartAt(t.Context(), "s", "refunds", "k", 1, "ada", "all messages exist"))
	}
	g.wantAudited(t, "inbox start-at", "all messages exist", "seq 1, after 0; parked messages dropped: 0")
	wantFirstKept(t, g, in, 1)
}
