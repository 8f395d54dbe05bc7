package inbox

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
)

// TestHandlerTimeout: a handler that does not return in time has failed, whether it returns when its context ends or never. It cannot
// write any more. Messages before it in its batch are applied, those behind it by the next delivery, and it becomes a dead letter after its
// attempts. While it goes on, it is not called again.
func TestHandlerTimeout(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testHandlerTimeout[pgx.Tx], testHandlerTimeout[*sql.Tx])
}

func testHandlerTimeout[TX any](t *testing.T, g *fixture[TX]) {
	in, _ := g.inbox(t, inbox.Config{Order: inbox.InOrder, HandlerTimeout: 100 * time.Millisecond, Policy: soon(2)})
	free, late := make(chan struct{}), make(chan error, 10)
	calls := map[string]int{}
	hangs := func(ctx context.Context, tx TX, m message.Message) error {
		calls[m.ID]++
		if err := g.book(ctx, tx, m); err != nil || m.Key == "k" {
			return err
		}
		if m.Key == "waits" {
			<-ctx.Done()
			return ctx.Err()
		}
		<-free
		late <- g.book(context.WithoutCancel(ctx), tx, m)
		return nil
	}
	for i, key := range []string{"waits", "never"} {
		before, behind := ordered("k", int64(2*i+1)), ordered("k", int64(2*i+2))
		list := []message.Message{before, ordered(key, 1), ordered(key, 2), ordered("behind "+key, 1)}
		results := in.HandleBatch(t.Context(), list, hangs)
		want(t, results[0].Outcome, results[0].Err, inbox.Applied)
		if !errors.Is(results[1].Err, inbox.ErrHandlerTimeout) || results[2].Err == nil || results[3].Err == nil {
			t.Errorf("%s: %+v", key, results)
		}
		results = in.HandleBatch(t.Context(), []message.Message{list[1], behind}, hangs) // the last attempt
		want(t, results[0].Outcome, results[0].Err, inbox.DeadLettered)
		if key == "waits" { // it was called once more, and the other one is behind it
			o, err := in.Handle(t.Context(), behind, hangs)
			want(t, o, err, inbox.Applied)
		} else {
			want(t, results[1].Outcome, results[1].Err, inbox.Applied)
		}
	}
	if calls["waits-1"] != 2 || calls["never-1"] != 1 || in.Hanging() != 1 {
		t.Errorf("%v, %d hang", calls, in.Hanging())
	}
	close(free)
	if err := <-late; err == nil {
		t.Error("a handler has written after its time")
	}
	g.wantBooked(t, "k-1", "k-2", "k-3", "k-4")
	if n := g.letters(t); n != 2 {
		t.Errorf("%d letters", n)
	}
}

// TestHandlerGoexit: a handler that ends its goroutine has failed, and the message becomes a dead letter after its attempts.
func TestHandlerGoexit(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testHandlerGoexit[pgx.Tx], testHandlerGoexit[*sql.Tx])
}

func testHandlerGoexit[TX any](t *testing.T, g *fixture[TX]) {
	in, _ := g.inbox(t, inbox.Config{Order: inbox.InOrder, Policy: soon(2)})
	ends := func(ctx context.Context, tx TX, m message.Message) error {
		if err := g.book(ctx, tx, m); err != nil || m.Key == "k" {
			return err
		}
		runtime.Goexit()
		return nil
	}
	results := in.HandleBatch(t.Context(), []message.Message{ordered("k", 1), ordered("ends", 1)}, ends)
	want(t, results[0].Outcome, results[0].Err, inbox.Applied)
	if results[1].Err == nil {
		t.Errorf("%+v", results[1])
	}
	o, err := in.Handle(t.Context(), ordered("ends", 1), ends)
	want(t, o, err, inbox.DeadLettered)
	g.wantBooked(t, "k-1")
}

// TestHangingHandlerStopsOnlyItsMessage: while the handler of a message hangs, the handler is called for a message of another key, topic or Seq with the same source and ID, and not again for the message itself.
func TestHangingHandlerStopsOnlyItsMessage(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testHangingHandlerStopsOnlyItsMessage[pgx.Tx], testHangingHandlerStopsOnlyItsMessage[*sql.Tx])
}

func testHangingHandlerStopsOnlyItsMessage[TX any](t *testing.T, g *fixture[TX]) {
	in, _ := g.inbox(t, inbox.Config{Order: inbox.InOrder, HandlerTimeout: 100 * time.Millisecond})
	free := make(chan struct{})
	defer close(free)
	hung := numbered("k", "1", 1)
	otherKey, otherTopic, otherSeq := numbered("l", "1", 1), hung, numbered("m", "1", 2)
	otherTopic.Topic = "orders"
	before := numbered("m", "0", 1)
	var calls atomic.Int64
	fn := func(_ context.Context, _ TX, m message.Message) error {
		calls.Add(1)
		if m.Key == hung.Key && m.Topic == hung.Topic {
			<-free
		}
		return nil
	}
	for _, m := range []message.Message{hung, hung, otherKey, otherTopic, before, otherSeq} {
		_, err := in.Handle(t.Context(), m, fn)
		if m.Key == hung.Key && m.Topic == hung.Topic && !errors.Is(err, inbox.ErrHandlerTimeout) {
			t.Error(err)
		}
	}
	if calls.Load() != 5 || in.Hanging() != 1 {
		t.Errorf("%d calls, %d hang", calls.Load(), in.Hanging())
	}
}
