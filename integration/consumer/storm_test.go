package consumer

import (
	"context"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store/sqlplane"
)

// plan is that of a process that applies in g what b delivers.
func (g *fixture[TX]) plan(b broker) plan {
	p := plan{Database: g.Database}
	b.into(&p)
	return p
}

// last starts a process that is not taken for dead, and so ends what others have left.
func (p plan) last(t *testing.T) *harness.Child {
	t.Helper()
	if p.Kafka != "" {
		go p.rejoin(t)
	}
	return harness.Start(t, plan{Database: p.Database, NATS: p.NATS, Kafka: p.Kafka, Redis: p.Redis, AMQP: p.AMQP, Fails: p.Fails, Last: true})
}

// rejoin joins the group of the consumers now and then, and leaves it, until the test ends. The model of Kafka keeps a member for ever that has died
// before it could be told its assignment: only the next join removes it. Kafka removes it when its session has timed out.
func (p plan) rejoin(t *testing.T) {
	for {
		select {
		case <-t.Context().Done():
			return
		case <-time.After(20 * time.Second):
		}
		c, err := kgo.NewClient(append(kafkaOptions(p.Kafka, time.Second), kgo.ConsumerGroup("billing"), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit())...)
		if err != nil {
			t.Error(err)
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		c.PollFetches(ctx)
		cancel()
		c.Close()
	}
}

// TestConsumersAreKilled: consumers are killed and stopped at any moment, a nats-server or a RabbitMQ is killed, and messages come twice. Each
// message is applied once and in order.
func TestConsumersAreKilled(t *testing.T) {
	testenv.Core(t)
	t.Parallel()
	onCells(t, testConsumersAreKilled[pgxTx], testConsumersAreKilled[sqlTx])
}

func testConsumersAreKilled[TX any](t *testing.T, g *fixture[TX], b broker) {
	const keys, each = 12, 30
	p := g.plan(b)
	p.Fails = true
	done := make(chan struct{})
	go func() {
		defer close(done)
		for seq := int64(1); seq <= each; seq++ {
			list := batch(keys, seq, seq)
			b.publish(t, list)
			if seq == each/2 {
				if err := b.disturb(); err != nil {
					t.Error(err)
				}
			} else if seq > 1 && seq%3 == 0 {
				b.repeat(t, list[:3])
			}
			<-time.After(30 * time.Millisecond)
		}
	}()
	kills, stops := storm(t, p, done)
	last := p.last(t)
	g.waitFor(t, keys*each)
	b.waitDone(t)
	last.Drain(t)
	g.check(t, keys*each, keys)
	testenv.Count("messages", keys*each)
	testenv.Reportf(t, "%d messages, consumers killed %d times, stopped %d times", keys*each, kills, stops)
}

// storm kills and stops consumers until done is closed, and replaces them. At least two of them run.
func storm(t *testing.T, p plan, done <-chan struct{}) (kills, stops int) {
	t.Helper()
	running := []*harness.Child{harness.Start(t, p), harness.Start(t, p)}
	for working := true; working || kills < 6 || stops < 2; {
		select {
		case <-done:
			working = false
			<-time.After(50 * time.Millisecond)
		case <-time.After(50*time.Millisecond + rand.N(300*time.Millisecond)):
		}
		i := rand.IntN(len(running))
		c := running[i]
		if stops < 2 && rand.IntN(3) == 0 { // it is stopped until its messages have gone to another, and wakes
			stops++
			c.Signal(syscall.SIGSTOP) // it may have killed itself
			running = append(running, harness.Start(t, p))
			<-time.After(1500 * time.Millisecond)
			c.Signal(syscall.SIGCONT)
			continue
		}
		kills++
		c.Kill()
		next := p
		if kills%2 == 0 {
			next.KillAt = 1 + rand.Int64N(60)
		}
		running[i] = harness.Start(t, next)
	}
	for _, c := range running {
		c.Kill()
	}
	return kills, stops
}

// TestConsumerKilledAtEveryPoint: a consumer is killed in the handler, after the commit, before and after an
// acknowledgement has been sent, and after the commit of an offset.
func TestConsumerKilledAtEveryPoint(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	onCells(t, testKilledAtEveryPoint[pgxTx], testKilledAtEveryPoint[sqlTx])
}

func testKilledAtEveryPoint[TX any](t *testing.T, g *fixture[TX], b broker) {
	const keys = 2
	p := g.plan(b)
	points := b.points()
	for i, at := range points {
		b.publish(t, batch(keys, int64(2*i+1), int64(2*i+2)))
		p.KillAt = at
		if _, killed := harness.Start(t, p).End(t); !killed {
			t.Fatalf("point %d is not reached", at)
		}
	}
	last := p.last(t)
	g.waitFor(t, 2*keys*len(points))
	b.waitDone(t)
	last.Drain(t)
	g.check(t, 2*keys*len(points), keys)
}

// TestConsumerStopsAndItsMessagesMove: a consumer stops (SIGSTOP) in a handler, or between a commit and its acknowledgement. Its
// messages and partitions go to another consumer, which ends them. Then the first one wakes, and goes on: nothing is applied twice.
func TestConsumerStopsAndItsMessagesMove(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	onCells(t, testMessagesMove[pgxTx], testMessagesMove[sqlTx])
}

func testMessagesMove[TX any](t *testing.T, g *fixture[TX], b broker) {
	if g.store.Dialect() == sqlplane.SQLite {
		t.Skip("a stopped process may hold the only write lock of SQLite, and nothing can release it, so the case cannot exist")
	}
	const keys, each = 4, 5
	first := int64(1)
	for _, where := range []string{inHandler, afterCommit} {
		p := g.plan(b)
		p.StopIn = where
		b.publish(t, batch(keys, first, first+each-1))
		stopped := harness.Start(t, p)
		if !stopped.Wait("stop") {
			t.Fatal("a consumer has ended, and not stopped")
		}
		stopped.UntilStopped(t)
		other := p.last(t)
		// All are applied and acknowledged while the first one is stopped: what it had in hand has moved.
		g.waitFor(t, keys*int(first+each-1))
		b.waitDone(t)
		stopped.Signal(syscall.SIGCONT)
		first += each
		b.publish(t, batch(keys, first, first+each-1))
		first += each
		g.waitFor(t, keys*int(first-1))
		b.waitDone(t)
		stopped.Drain(t)
		other.Drain(t)
	}
	g.check(t, keys*int(first-1), keys)
}
