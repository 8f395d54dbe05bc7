package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"sync"
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
	withinLimits(func(limit time.Duration) (slow bool) { return g.handlerTimeout(t, limit) })
}

// withinLimits calls test with a HandlerTimeout. On a busy machine, handlers that do not hang can take longer than a short HandlerTimeout, too. test then
// returns true, and withinLimits calls it with a longer one.
func withinLimits(test func(limit time.Duration) (slow bool)) {
	for limit := 100 * time.Millisecond; test(limit) && limit < longestLimit; limit *= 10 {
	}
}

const longestLimit = 10 * time.Second

// handlerTimeout returns true if a handler that does not hang has taken longer than limit.
func (g *fixture[TX]) handlerTimeout(t *testing.T, limit time.Duration) (slow bool) {
	t.Helper()
	g.exec(t, "delete from effect")
	consumer := fmt.Sprint("limit ", limit)
	in, _ := g.inbox(t, inbox.Config{Consumer: consumer, Order: inbox.InOrder, HandlerTimeout: limit, Policy: soon(2)})
	free, late := make(chan struct{}), make(chan error, 10)
	release := sync.OnceFunc(func() { close(free) })
	defer release()
	calls := map[string]*atomic.Int64{"waits-1": {}, "never-1": {}}
	var failed atomic.Bool // a statement, because the time was over
	isSlow := func(key string, err error) bool {
		return limit < longestLimit && (failed.Load() || errors.Is(err, inbox.ErrHandlerTimeout) || key == "waits" && in.Hanging() > 0)
	}
	hangs := func(ctx context.Context, tx TX, m message.Message) error {
		if n := calls[m.ID]; n != nil {
			n.Add(1)
		}
		err := g.book(ctx, tx, m)
		failed.CompareAndSwap(false, err != nil)
		switch {
		case m.Key == "waits" && err == nil:
			<-ctx.Done()
			return ctx.Err()
		case m.Key == "never":
			<-free
			late <- errors.Join(err, g.book(context.WithoutCancel(ctx), tx, m))
			return nil
		}
		return err
	}
	for i, key := range []string{"waits", "never"} {
		before, behind := ordered("k", int64(2*i+1)), ordered("k", int64(2*i+2))
		list := []message.Message{before, ordered(key, 1), ordered(key, 2), ordered("behind "+key, 1)}
		results := in.HandleBatch(t.Context(), list, hangs)
		if isSlow(key, results[0].Err) {
			return true
		}
		want(t, results[0].Outcome, results[0].Err, inbox.Applied)
		if !errors.Is(results[1].Err, inbox.ErrHandlerTimeout) || results[2].Err == nil || results[3].Err == nil {
			t.Errorf("%s: %+v", key, results)
		}
		results = in.HandleBatch(t.Context(), []message.Message{list[1], behind}, hangs) // the last attempt
		want(t, results[0].Outcome, results[0].Err, inbox.DeadLettered)
		o, err := results[1].Outcome, results[1].Err
		if key == "waits" { // it was called once more, and the other one is behind it
			o, err = in.Handle(t.Context(), behind, hangs)
		}
		if isSlow(key, err) {
			return true
		}
		want(t, o, err, inbox.Applied)
	}
	hanging := in.Hanging()
	release()
	if err := <-late; err == nil {
		t.Error("a handler has written after its time")
	}
	if waits, never := calls["waits-1"].Load(), calls["never-1"].Load(); waits != 2 || never != 1 || hanging != 1 {
		t.Errorf("%d and %d calls, %d hang", waits, never, hanging)
	}
	g.wantBooked(t, "k-1", "k-2", "k-3", "k-4")
	if n := g.count(t, "select count(*) from once_deadletter where state = 'dead' and consumer = ?", consumer); n != 2 {
		t.Errorf("%d letters", n)
	}
	return false
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
	hung := numbered("k", "1", 1)
	otherKey, otherTopic, otherSeq := numbered("l", "1", 1), hung, numbered("m", "1", 2)
	otherTopic.Topic = "orders"
	before := numbered("m", "0", 1)
	isHung := func(m message.Message) bool { return m.Key == hung.Key && m.Topic == hung.Topic }
	withinLimits(func(limit time.Duration) (slow bool) {
		in, _ := g.inbox(t, inbox.Config{Consumer: fmt.Sprint("limit ", limit), Order: inbox.InOrder, HandlerTimeout: limit})
		free, begun := make(chan struct{}), make(chan struct{}, 10)
		defer close(free)
		var calls atomic.Int64
		fn := func(_ context.Context, _ TX, m message.Message) error {
			calls.Add(1)
			if isHung(m) {
				begun <- struct{}{}
				<-free
			}
			return nil
		}
		for _, m := range []message.Message{hung, hung, otherKey, otherTopic, before, otherSeq} {
			_, err := in.Handle(t.Context(), m, fn)
			isLate := errors.Is(err, inbox.ErrHandlerTimeout)
			if isLate && !isHung(m) && limit < longestLimit {
				return true
			}
			if isHung(m) && !isLate {
				t.Error(err)
			}
		}
		<-begun
		if calls.Load() != 5 || in.Hanging() != 1 {
			t.Errorf("%d calls, %d hang", calls.Load(), in.Hanging())
		}
		return false
	})
}
