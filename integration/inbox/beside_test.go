package inbox

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// sick is how many keys are in trouble: more than Run works on at the same time.
const sick = 6

func sickKey(n int) string { return fmt.Sprintf("sick %d", n) }

// roomy has enough connections for all handlers that hang.
func roomy(c *pgxpool.Config) { c.MaxConns = 20 }

// hanging runs the inbox with a handler that does not return for sick keys until the test ends, and waits until all of those hang.
func (g *fixture[TX]) hanging(t *testing.T, in *inbox.Inbox[TX]) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	free, ended := make(chan struct{}), make(chan error, 1)
	var hang atomic.Int64
	go func() {
		ended <- in.Run(ctx, func(ctx context.Context, tx TX, m message.Message) error {
			if m.Topic == "sick" {
				hang.Add(1)
				<-free
			}
			return g.book(ctx, tx, m)
		})
	}()
	t.Cleanup(func() {
		cancel()
		close(free)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	until(t, func() bool { return hang.Load() == sick })
}

// park has the second message of a key wait for its next attempt, which is due.
func (g *fixture[TX]) park(t *testing.T, in *inbox.Inbox[TX], topic, key string) {
	t.Helper()
	fails := g.failing(func(m message.Message) bool { return m.Seq == 2 })
	for _, seq := range []int64{2, 1} { // the failed attempt is of the parked one
		m := ordered(key, seq)
		m.Topic = topic
		if _, err := in.Handle(t.Context(), m, fails); err != nil {
			t.Fatal(err)
		}
	}
}

// TestParkedBesideSlow: parked messages that become due are applied while the handlers of several other keys take long.
func TestParkedBesideSlow(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	g := newPgx(t, roomy)
	in, _ := g.inbox(t, inbox.Config{Order: inbox.InOrder, HandlerTimeout: time.Hour, Policy: soon(5)})
	for n := range sick {
		g.park(t, in, "sick", sickKey(n))
	}
	g.hanging(t, in)
	for n := range 3 { // one after the other: Run finds each while the others hang
		key := fmt.Sprintf("k%d", n)
		g.park(t, in, "healthy", key)
		until(t, func() bool { return len(g.booked(t)) == sick+2*(n+1) })
	}
}

// TestRedriveBesideSlow: redriven letters are applied while the letters of several other keys, many of each, have a handler that takes long.
func TestRedriveBesideSlow(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	g := newPgx(t, roomy)
	in, _ := g.inbox(t, inbox.Config{Order: inbox.LatestVersion, HandlerTimeout: time.Hour, Policy: soon(1)})
	bury := func(topic, key string, seq int64) {
		m := ordered(key, seq)
		m.Topic = topic
		o, err := in.Handle(t.Context(), m, g.failing(func(message.Message) bool { return true }))
		want(t, o, err, inbox.DeadLettered)
	}
	for n := range sick {
		for seq := range int64(10) {
			bury("sick", sickKey(n), seq+1)
		}
	}
	redrive := func() { g.exec(t, "update once_deadletter set redrive_at = NOW where redrive_at is null") }
	redrive()
	g.hanging(t, in)
	for n := range 3 {
		bury("healthy", fmt.Sprintf("k%d", n), 1)
		redrive()
		until(t, func() bool { return len(g.booked(t)) == n+1 })
	}
}

// TestASweepThatWaitsDelaysNoMessage: parked messages that become due are applied while the sweep of the inbox waits for a row that another
// transaction has locked. The sweep deletes the row when the lock is gone.
func TestASweepThatWaitsDelaysNoMessage(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	g := newPgx(t)
	in, _ := g.inbox(t, inbox.Config{Order: inbox.InOrder, Policy: soon(1)})
	letter := ordered("dead", 1)
	o, err := in.Handle(t.Context(), letter, g.failing(func(message.Message) bool { return true }))
	want(t, o, err, inbox.DeadLettered)
	letters := func() int { return g.count(t, "select count(*) from once_deadletter") }
	if n := g.exec(t, "update once_deadletter set state = 'discarded', resolved_at = AGO(?)", (1000 * time.Hour).Microseconds()); n != 1 {
		t.Fatalf("%d letters", n)
	}
	unlock := make(chan struct{})
	locked, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- g.store.Within(t.Context(), store.ReadCommitted, func(ctx context.Context, r sqlplane.Runner) error {
			_, err := r.Exec(ctx, g.text("update once_deadletter set state = state"))
			close(locked)
			<-unlock
			return err
		})
	}()
	<-locked
	waiting := func() bool {
		return g.count(t, "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'") > 0
	}
	in, _ = g.inbox(t, inbox.Config{Order: inbox.InOrder, Policy: soon(5)})
	run(t, in, g.book, func() bool {
		until(t, waiting)
		for n := range 3 {
			g.park(t, in, "healthy", fmt.Sprintf("k%d", n))
			until(t, func() bool { return len(g.booked(t)) == 2*(n+1) })
		}
		if !waiting() || letters() != 1 {
			t.Errorf("vacuous: the sweep does not wait any more; %d letters", letters())
		}
		close(unlock)
		must(t, <-ended)
		until(t, func() bool { return letters() == 0 })
		return true
	})
}

// TestParkedBesideUnreadable: a parked message that cannot be read, because a key of the encryption is missing, is tried less and less
// often, and those of other keys are applied meanwhile as often as they are due.
func TestParkedBesideUnreadable(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	g := newPgx(t)
	encrypter, err := once.NewEncrypter(bytes.Repeat([]byte{1}, 32))
	must(t, err)
	policy := &retry.Policy{Attempts: 5, Base: -1, Total: -1}
	knows, _ := g.inbox(t, inbox.Config{Order: inbox.InOrder, Policy: policy, Encrypter: encrypter})
	g.park(t, knows, "sick", "sick")
	blind, told := g.inbox(t, inbox.Config{Order: inbox.InOrder, Policy: policy})
	run(t, blind, g.book, func() bool {
		failed := func() int { return len(told.of(inbox.EventDatabase)) }
		until(t, func() bool { return failed() >= 8 }) // the next pauses are 6 and 12 seconds
		const messages = 8
		before := failed()
		for n := range messages {
			g.park(t, blind, "healthy", fmt.Sprintf("k%d", n))
			until(t, func() bool { return len(g.booked(t)) == 1+2*(n+1) })
		}
		if n := failed() - before; n >= messages {
			t.Errorf("%d attempts beside %d messages", n, messages)
		}
		return true
	})
}
