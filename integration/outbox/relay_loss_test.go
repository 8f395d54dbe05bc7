package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/oncelib/once/message"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

var errRolledBack = errors.New("rolled back")

// TestRelayOrderAndLoss: while relays are killed and stopped, transactions commit late or are rolled back, messages of a key are
// in parts that several releases have chosen, and the destination refuses, is late or does not answer, no message is lost, and a
// consumer that discards what it knows sees each key in order.
func TestRelayOrderAndLoss(t *testing.T) {
	t.Parallel()
	choose := func(t *testing.T, c cell) {
		t.Helper()
		if !isFirst(c) {
			t.Skip("see TestRelayOrderAndLossOnEveryCell")
		}
	}
	onCells(t, choose, testOrderAndLoss[pgx.Tx], testOrderAndLoss[*sql.Tx])
}

// isFirst reports whether a cell is that which make test runs.
func isFirst(c cell) bool { return c == cell{harness.Pgx, toHTTP} }

// TestRelayOrderAndLossOnEveryCell is TestRelayOrderAndLoss with every other store and destination: a nats-server and a
// redis-server that are killed, a model of Kafka to which connections are cut, a publisher of Watermill that fails and loses answers. make prove
// runs Kafka and Watermill on two stores, and a sample of the rest.
func TestRelayOrderAndLossOnEveryCell(t *testing.T) {
	testenv.Core(t)
	t.Parallel()
	choose := func(t *testing.T, c cell) {
		t.Helper()
		switch {
		case isFirst(c):
			t.Skip("see TestRelayOrderAndLoss")
		case c.to != toKafka && c.to != toWatermill || c.store != "pgxstore" && c.store != "SQLite":
			testenv.Sample(t, 14)
		}
	}
	onCells(t, choose, testOrderAndLoss[pgx.Tx], testOrderAndLoss[*sql.Tx])
}

// writeElsewhere opens a transaction that writes in another database of the server.
func writeElsewhere(t *testing.T) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), testenv.NewDatabase(t))
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	_, err = conn.Exec(t.Context(), "begin; create table elsewhere (id int); insert into elsewhere values (1)")
	must(t, err)
}

const (
	lossWriters = 16
	lossEach    = 40 // transactions of a writer
	lossKeys    = 25
)

func testOrderAndLoss[TX any](t *testing.T, g *fixture[TX], plan relayPlan, to destination) {
	if g.store.Dialect() == sqlplane.PostgreSQL {
		writeElsewhere(t)
	}
	box := outbox.New[TX](partedStore[TX]{g.store}, outbox.Config{})
	var mu sync.Mutex
	committed := map[string]bool{}
	var rolledBack, slow int
	write := func(early bool) error {
		var ids []string
		add := func(ctx context.Context, tx TX, m message.Message) error {
			m.ID = once.NewKey()
			ids = append(ids, m.ID)
			return box.Add(ctx, tx, m)
		}
		chance := rand.IntN(100)
		work := func(ctx context.Context, tx TX) error {
			ids = nil
			if early {
				if err := add(ctx, tx, event("audit", "", "early")); err != nil {
					return err
				}
				<-time.After(rand.N(7 * time.Millisecond))
			}
			err := add(ctx, tx, event("refunds", fmt.Sprintf("k%d", rand.IntN(lossKeys)), "refund"))
			if err == nil && g.isServer() { // the key is locked, and ids behind it commit
				wait := rand.N(7 * time.Millisecond)
				if chance < 2 { // until relays have passed its id for long
					wait = 300*time.Millisecond + rand.N(500*time.Millisecond)
				}
				<-time.After(wait)
			}
			if err == nil && chance >= 90 {
				err = errRolledBack
			}
			return err
		}
		var err error
		if g.isServer() {
			tx, end := g.begin(t)
			if err = work(t.Context(), tx); err != nil {
				err = errors.Join(err, end(false))
			} else {
				err = end(true)
			}
		} else {
			err = g.do(t.Context(), work)
		}
		mu.Lock()
		defer mu.Unlock()
		switch {
		case errors.Is(err, errRolledBack):
			rolledBack++
			return nil
		case err == nil:
			if chance < 2 {
				slow++
			}
			for _, id := range ids {
				committed[id] = true
			}
		}
		return err
	}
	var writers sync.WaitGroup
	for range lossWriters {
		writers.Go(func() {
			for i := range lossEach {
				err := write(i%2 == 0)
				for store.KindOf(err) == store.KindRetry && t.Context().Err() == nil { // a deadlock
					err = write(i%2 == 0)
				}
				if err != nil {
					t.Errorf("a writer: %v", err)
					return
				}
				<-time.After(rand.N(60 * time.Millisecond))
			}
		})
	}
	written := make(chan struct{})
	go func() { writers.Wait(); close(written) }()

	relays := []*harness.Child{harness.Start(t, plan), harness.Start(t, plan)}
	kills, stops := 0, 0
	for writing := true; writing || kills < 8 || stops < 2; {
		select {
		case <-written:
			writing = false
			<-time.After(50 * time.Millisecond)
		case <-time.After(50*time.Millisecond + rand.N(250*time.Millisecond)):
		}
		if rand.IntN(4) == 0 {
			to.disturb(t)
		}
		i := rand.IntN(len(relays))
		p := plan
		switch r := relays[i]; {
		case stops < 2 && rand.IntN(3) == 0: // it is stopped for longer than its hold, and wakes
			stops++
			r.Signal(syscall.SIGSTOP) // it may have killed itself
			relays = append(relays, harness.Start(t, plan))
			<-time.After(1500 * time.Millisecond)
			r.Signal(syscall.SIGCONT)
		default:
			kills++
			r.Kill()
			if p.KillAt = 0; kills%2 == 0 {
				p.KillAt = 1 + rand.Int64N(60)
			}
			relays[i] = harness.Start(t, p)
		}
	}
	for _, r := range relays {
		r.Kill()
	}
	plan.Timeout, plan.TTL = patience, 3*time.Second
	final := harness.Start(t, plan)
	waitMet(t, to) // relays that are killed before they have begun have met nothing
	to.setCalm()
	g.waitEmpty(t)
	final.Drain(t)

	arrived := to.arrived(t)
	v := judge(committed, arrived)
	_, met := to.met()
	testenv.Count("messages", len(committed))
	testenv.Reportf(t, "%d messages, %d deliveries, %d duplicates, %d lost, %d out of order; %d transactions rolled back, %d slow; %d relays killed, %d stopped; %s",
		len(committed), len(arrived), v.duplicates, v.lost, v.outOfOrder, rolledBack, slow, kills, stops, met)
	if v.lost > 0 || v.outOfOrder > 0 {
		t.Errorf("%d messages are lost, %d are out of order", v.lost, v.outOfOrder)
	}
	if len(committed) < lossWriters*lossEach || rolledBack == 0 || slow == 0 {
		t.Error("the run has not met what it is for")
	}
}

// waitMet waits until a destination has failed.
func waitMet(t *testing.T, to destination) {
	t.Helper()
	to.disturb(t)
	for end := time.Now().Add(patience); ; <-time.After(5 * time.Millisecond) {
		n, says := to.met()
		switch {
		case n > 0:
			return
		case time.Now().After(end):
			t.Fatal("vacuous:", says)
		}
	}
}
