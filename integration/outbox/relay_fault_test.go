package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelib/once/message"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// faultyStore fails the N-th statement that runs by itself, before it is applied or after that.
type faultyStore[TX any] struct {
	sqlplane.SQL[TX]

	at      int64
	applied bool
	calls   atomic.Int64
}

func (s *faultyStore[TX]) Pool() sqlplane.Runner { return faultyRunner[TX]{s.SQL.Pool(), s} }

func (s *faultyStore[TX]) call(fn func() error) error {
	if s.calls.Add(1) != s.at {
		return fn()
	}
	if !s.applied {
		return &store.Error{Kind: store.KindUnavailable, Err: errors.New("a fault")}
	}
	if err := fn(); err != nil {
		return err
	}
	return &store.Error{Kind: store.KindLost, Err: errors.New("a fault")}
}

type faultyRunner[TX any] struct {
	sqlplane.Runner

	s *faultyStore[TX]
}

func (r faultyRunner[TX]) Exec(ctx context.Context, st store.Statement) (n int64, err error) {
	err = r.s.call(func() (err error) {
		n, err = r.Runner.Exec(ctx, st)
		return err
	})
	return n, err
}

func (r faultyRunner[TX]) Query(ctx context.Context, st store.Statement, each func(sqlplane.Row) error) error {
	return r.s.call(func() error { return r.Runner.Query(ctx, st, each) })
}

// TestRelayEveryStatementFails: whichever statement of a relay fails, or is applied and not answered, every message
// arrives, and the messages of a key in order.
func TestRelayEveryStatementFails(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	on(t, testRelayEveryStatementFails, testRelayEveryStatementFails)
}

func testRelayEveryStatementFails[TX any](t *testing.T, g *fixture[TX]) {
	for _, applied := range []bool{false, true} {
		at := int64(1)
		for survived := false; !survived; at++ {
			g.fill(t, 3, "a", "b")
			if at == 1 {
				g.exec(t, "delete from once_hold where 1 = 1")
			}
			b := newInbox()
			b.setRefuse(func(m message.Message) error {
				if m.Key == "a" && m.Type == "t2" && m.Delivery == 1 {
					return errors.New("the first time")
				}
				return nil
			})
			s := &faultyStore[TX]{SQL: g.store, at: at, applied: applied}
			stop := start(t, outbox.New[TX](s, outbox.Config{}).Relay(b, outbox.RelayConfig{Policy: soon(forever), Observer: newEvents(), Concurrency: 1, TTL: 3 * time.Second}))
			b.wait(t, "all", func(got []message.Message) bool { return distinct(got) == 9 })
			g.waitEmpty(t)
			must(t, stop())
			last := map[string]int64{}
			for _, m := range b.arrived() {
				if before, known := last[m.Key]; m.Key != "" && known && m.Seq > before+1 {
					t.Errorf("statement %d, applied %v: %s %d after %d", at, applied, m.Key, m.Seq, before)
				}
				last[m.Key] = max(last[m.Key], m.Seq)
			}
			survived = s.calls.Load() < at
		}
		if at < 12 {
			t.Errorf("%d statements only", at)
		}
	}
}

func distinct(list []message.Message) int {
	ids := map[string]bool{}
	for _, m := range list {
		ids[m.ID] = true
	}
	return len(ids)
}

// TestRelayKilledAtEveryPoint: a relay is killed before and after each of its first statements and deliveries. make prove
// runs two cells, and a sample of the others.
func TestRelayKilledAtEveryPoint(t *testing.T) {
	testenv.Core(t)
	t.Parallel()
	choose := func(t *testing.T, c cell) {
		t.Helper()
		if c != (cell{"SQLite", toHTTP}) && c != (cell{"pgxstore", toNATS}) {
			testenv.Sample(t, 18)
		}
	}
	onCells(t, choose, testKilledAtEveryPoint[pgx.Tx], testKilledAtEveryPoint[*sql.Tx])
}

func testKilledAtEveryPoint[TX any](t *testing.T, g *fixture[TX], plan relayPlan, to destination) {
	to.setCalm()
	committed := map[string]bool{}
	const points = 60
	for at := int64(1); at <= points; at++ {
		var list []message.Message
		for _, m := range []message.Message{event("refunds", "a", "t"), event("refunds", "b", "t"), event("mails", "", "t"), event("refunds", "a", "t")} {
			m, id := withID(m)
			list, committed[id] = append(list, m), true
		}
		g.mustAdd(t, list...)
		plan.KillAt, plan.TTL = at, 200*time.Millisecond
		if _, killed := harness.Start(t, plan).End(t); !killed {
			t.Fatalf("point %d: the relay has ended by itself", at)
		}
	}
	plan.KillAt, plan.TTL, plan.Timeout = 0, 3*time.Second, patience
	final := harness.Start(t, plan)
	g.waitEmpty(t)
	final.Drain(t)
	arrived := to.arrived(t)
	v := judge(committed, arrived)
	testenv.Count("messages", len(committed))
	testenv.Reportf(t, "%d messages, %d points, %d deliveries, %d duplicates, %d lost, %d out of order", len(committed), points, len(arrived), v.duplicates, v.lost, v.outOfOrder)
	if v.lost > 0 || v.outOfOrder > 0 {
		t.Errorf("%d messages of %d are lost, %d out of order", v.lost, len(committed), v.outOfOrder)
	}
}

// TestRelayBatchBytes: a batch of large messages is cut, so that memory stays flat.
func TestRelayBatchBytes(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testRelayBatchBytes, testRelayBatchBytes)
}

func testRelayBatchBytes[TX any](t *testing.T, g *fixture[TX]) {
	const n = 40
	for i := range n {
		m := event("files", fmt.Sprint(i%3), "file")
		m.Payload = make([]byte, 900<<10)
		g.mustAdd(t, m)
	}
	b := newInbox()
	p := outbox.PublisherFunc(func(ctx context.Context, messages []message.Message) []error {
		bytes := 0
		for i := range messages {
			bytes += len(messages[i].Payload)
		}
		if bytes > 8<<20 {
			t.Errorf("a batch of %d bytes", bytes)
		}
		return b.Publish(ctx, messages)
	})
	start(t, g.relay(p, outbox.RelayConfig{Concurrency: 1}))
	b.waitFor(t, n)
	g.waitEmpty(t)
	b.check(t, n)
}
