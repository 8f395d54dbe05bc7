package inbox

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/testenv"
)

// TestHandlerTimeout: a handler that does not return in time has failed, whether it returns when its context ends or never. It cannot
// write any more, others of its batch are applied by the next delivery, and the message becomes a dead letter after its attempts.
func TestHandlerTimeout(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testHandlerTimeout[pgx.Tx], testHandlerTimeout[*sql.Tx])
}

func testHandlerTimeout[TX any](t *testing.T, g *ground[TX]) {
	in, _ := g.inbox(t, inbox.Config{Order: inbox.InOrder, HandlerTimeout: 100 * time.Millisecond, Policy: soon(2)})
	free, late := make(chan struct{}), make(chan error, 10)
	hangs := func(ctx context.Context, tx TX, m inbox.Message) error {
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
	for _, key := range []string{"waits", "never"} {
		list := []inbox.Message{ordered("k", 1), ordered(key, 1), ordered(key, 2)}
		results := in.HandleBatch(t.Context(), list, hangs)
		if !errors.Is(results[1].Err, inbox.ErrHandlerTimeout) {
			t.Errorf("%s: %v", key, results[1].Err)
		}
		if results[0].Err == nil && key == "waits" || results[2].Err == nil {
			t.Errorf("%s: others of the batch: %+v", key, results)
		}
		g.wantBooked(t, map[string][]string{"waits": nil, "never": {"k-1"}}[key]...)
		o, err := in.Handle(t.Context(), list[1], hangs) // the last attempt
		want(t, o, err, inbox.DeadLettered)
		if key == "waits" {
			o, err = in.Handle(t.Context(), list[0], hangs)
			want(t, o, err, inbox.Applied)
		}
	}
	close(free)
	for range 2 {
		if err := <-late; err == nil {
			t.Error("a handler has written after its time")
		}
	}
	g.wantBooked(t, "k-1")
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

func testHandlerGoexit[TX any](t *testing.T, g *ground[TX]) {
	in, _ := g.inbox(t, inbox.Config{Order: inbox.InOrder, Policy: soon(2)})
	ends := func(ctx context.Context, tx TX, m inbox.Message) error {
		if err := g.book(ctx, tx, m); err != nil || m.Key == "k" {
			return err
		}
		runtime.Goexit()
		return nil
	}
	results := in.HandleBatch(t.Context(), []inbox.Message{ordered("k", 1), ordered("ends", 1)}, ends)
	want(t, results[0].Outcome, results[0].Err, inbox.Applied)
	if results[1].Err == nil {
		t.Errorf("%+v", results[1])
	}
	o, err := in.Handle(t.Context(), ordered("ends", 1), ends)
	want(t, o, err, inbox.DeadLettered)
	g.wantBooked(t, "k-1")
}
