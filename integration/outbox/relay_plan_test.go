package outbox

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// readStore records what a relay reads and writes, and how many rows.
type readStore[TX any] struct {
	sqlplane.SQL[TX]

	mu       sync.Mutex
	kinds    map[string]store.Statement // the last of each kind
	count    map[string]int
	writes   []store.Statement
	rows     int // with a payload or without
	payloads int // of claims
	scanned  int
}

func (s *readStore[TX]) Pool() sqlplane.Runner { return readRunner[TX]{s.SQL.Pool(), s} }

func (s *readStore[TX]) note(st store.Statement) (kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind = kindOf(st.SQL)
	if s.count == nil {
		s.count = map[string]int{}
	}
	s.count[kind]++
	if s.kinds != nil && kind != "" {
		s.kinds[kind] = st
	}
	if kind == "delivered" || kind == "failed" {
		s.writes = append(s.writes, st)
	}
	return kind
}

// has is how many statements of a kind were seen.
func (s *readStore[TX]) has(kind string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count[kind]
}

type readRunner[TX any] struct {
	sqlplane.Runner

	s *readStore[TX]
}

func (r readRunner[TX]) Exec(ctx context.Context, st store.Statement) (int64, error) {
	r.s.note(st)
	return r.Runner.Exec(ctx, st)
}

func (r readRunner[TX]) Query(ctx context.Context, st store.Statement, each func(sqlplane.Row) error) error {
	kind := r.s.note(st)
	return r.Runner.Query(ctx, st, func(row sqlplane.Row) error {
		r.s.mu.Lock()
		switch kind {
		case "scan":
			r.s.scanned++
		case "claim", "claim in trouble":
			r.s.payloads++
		}
		if strings.Contains(st.SQL, "payload") {
			r.s.rows++
		}
		r.s.mu.Unlock()
		return each(row)
	})
}

// kindOf is what a relay does with a statement.
func kindOf(text string) string {
	for _, k := range [...][2]string{
		{"select m.part, m.topic, m.id from", "tail"},
		{"with recursive q as ((select topic", "scan"},
		{"with recursive q as ((select part", "queues with failures"},
		{"false as blocked", "claim"},
		{"case when blocked", "claim in trouble"},
		{"as blocked from once_outbox o", "key"},
		{"as failing from", "count of failures"},
		{"as now from once_outbox_failed", "due"},
		{"as n from once_outbox", "predecessors"},
		{"false from once_outbox where (part, id)", "retry"},
		{"delete from once_outbox ", "delivered"},
		{"insert into once_outbox_failed", "failed"},
	} {
		if strings.Contains(text, k[0]) {
			return k[1]
		}
	}
	return ""
}

// fillTopics adds n messages of so many topics, with a key each, as many transactions have.
const fillTopics = `insert into once_outbox (part, topic, key, seq, event_id, event_type, source, headers, payload, encrypted, trace)
 select (i % $2 * 7 + i / $2 % 5 % 4) % 64, 'topic' || i % $2, 'k' || i / $2 % 5, i / $2 / 5 + 1, gen_random_uuid(), 'e', 'once', '', decode(repeat('61', 200), 'hex'), false, '' from generate_series(0, $1::int - 1) i`

// TestRelayPlans: every statement of a relay reads ranges of indexes, with few topics and with many, and also when the statistics are
// those of an empty table. None reads a table, sorts what it reads, or hashes the failures.
func TestRelayPlans(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	const rows = 100_000
	for _, topics := range []int{2, 10_000} {
		for _, stale := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d topics, stale %t", topics, stale), func(t *testing.T) {
				t.Parallel()
				g := newPgx(t)
				for _, table := range []string{"once_outbox", "once_outbox_failed"} {
					g.exec(t, "alter table "+table+" set (autovacuum_enabled = false)")
					g.exec(t, "analyze "+table)
				}
				g.exec(t, fillTopics, rows, topics)
				w := &readStore[pgxTx]{SQL: g.store, kinds: map[string]store.Statement{}}
				runPlans(t, g, w)
				g.exec(t, "truncate once_outbox, once_outbox_failed")
				g.exec(t, fillTopics, rows, topics)
				g.exec(t, `insert into once_outbox_failed select part, id, topic, key, 1, now() + interval '1 hour', now(), 'no' from once_outbox o
 where id % 7 = 0 on conflict do nothing`)
				if !stale {
					g.exec(t, "analyze once_outbox")
					g.exec(t, "analyze once_outbox_failed")
				}
				for kind, st := range w.kinds {
					g.wantPlan(t, kind, st)
				}
			})
		}
	}
}

// allKinds are the results of kindOf.
var allKinds = []string{"tail", "scan", "queues with failures", "claim", "claim in trouble", "key", "count of failures", "due", "predecessors", "retry", "delivered", "failed"}

// runPlans runs a relay until it has used all of its statements.
func runPlans(t *testing.T, g *fixture[pgxTx], w *readStore[pgxTx]) {
	t.Helper()
	b := newInbox()
	var mended atomic.Bool
	b.setRefuse(func(m message.Message) error {
		if m.Key == "k3" && m.Seq == 1 && !mended.Load() {
			return errRefused
		}
		return nil
	})
	box := outbox.New[pgxTx](w, outbox.Config{})
	stop := start(t, g.relayOf(box, b, outbox.RelayConfig{Policy: soon(forever), Observer: newEvents()}))
	for len(b.arrived()) < 2000 || w.has("claim in trouble") == 0 {
		b.waitFor(t, len(b.arrived())+1)
	}
	must(t, stop())
	g.exec(t, "delete from once_outbox where key <> 'k3' and seq % 2 = 1") // the numbers of the others have gaps
	stop = start(t, g.relayOf(box, b, outbox.RelayConfig{Policy: soon(forever), Observer: newEvents()}))
	mended.Store(true)
	harness.Until(t, func() error {
		for _, kind := range allKinds {
			if w.has(kind) == 0 {
				return fmt.Errorf("no statement was seen that reads: %s", kind)
			}
		}
		return nil
	})
	must(t, stop())
}

// wantPlan explains a statement.
func (g *fixture[TX]) wantPlan(t *testing.T, kind string, st store.Statement) {
	t.Helper()
	var plan []string
	must(t, g.store.Pool().Query(t.Context(), store.Statement{SQL: "explain " + st.SQL, Args: st.Args}, func(row sqlplane.Row) error {
		var line string
		err := row.Scan(&line)
		plan = append(plan, line)
		return err
	}))
	all := strings.Join(plan, "\n")
	bad := []string{"Seq Scan on once_outbox ", "Seq Scan on once_outbox o", "Seq Scan on once_outbox_failed", "hashed SubPlan"}
	if kind != "delivered" && kind != "failed" && kind != "retry" { // these read single rows, and sort what they are told to read
		bad = append(bad, "Sort")
		if kind != "tail" { // which reads all of a range that has a bound
			bad = append(bad, "Bitmap")
		}
	}
	for _, text := range bad {
		if strings.Contains(all, text) {
			t.Errorf("%s: %s\n%s", kind, text, all)
		}
	}
}

// TestRelayReadsNoOtherTopics: however many messages of other topics there are, failing, paused or waiting, the statements that deliver a topic
// return rows of it alone, and a relay reads one entry of an index for each queue before its first delivery.
func TestRelayReadsNoOtherTopics(t *testing.T) {
	t.Parallel()
	g := newPgx(t)
	const others = 20_000
	g.exec(t, fillTopics, others, 5)
	must(t, g.box.Pause(t.Context(), "topic0", "", "it waits"))
	for i := range 3 {
		must(t, g.box.Pause(t.Context(), fmt.Sprint("topic", i+1), "", "it waits"))
	}
	g.exec(t, "insert into once_outbox_failed select part, id, topic, key, 1, now() + interval '1 hour', now(), 'no' from once_outbox where topic = 'topic4'")
	const n = 50
	for i := range n {
		g.mustAdd(t, event("healthy", fmt.Sprint(i%5), "t"))
	}
	w := &readStore[pgxTx]{SQL: g.store, kinds: map[string]store.Statement{}}
	b := newInbox()
	stop := start(t, g.relayOf(outbox.New[pgxTx](w, outbox.Config{}), b, outbox.RelayConfig{}))
	b.waitFor(t, n)
	must(t, stop())
	w.mu.Lock()
	defer w.mu.Unlock()
	queues := g.count(t, "select count(*) from (select distinct topic, part from once_outbox) q") + 5
	if w.payloads > n+4*1000 || w.scanned > 8*(queues+20) { // the queues of topic4 are read until they are known to be full
		t.Errorf("%d payloads of %d and %d entries of %d queues were read", w.payloads, n, w.scanned, queues)
	}
}

// TestRelayBatchIsTwoStatements: a batch is settled by one statement, and its failures by another one, with a fence in each. Failures never share
// a statement with messages of another topic that is healthy.
func TestRelayBatchIsTwoStatements(t *testing.T) {
	t.Parallel()
	g := newPgx(t)
	const n = 200
	var list []message.Message
	for i := range n {
		list = append(list, event("bad", fmt.Sprint(i), "t"), event("good", fmt.Sprint(i), "t"))
	}
	w := &readStore[pgxTx]{SQL: g.store, kinds: map[string]store.Statement{}}
	b, e := newInbox(), newEvents()
	b.setRefuse(func(m message.Message) error {
		if m.Topic == "bad" && m.Key != "0" {
			return retry.After(errRefused, time.Hour)
		}
		return nil
	})
	g.mustAdd(t, list...)
	stop := start(t, g.relayOf(outbox.New[pgxTx](w, outbox.Config{}), b, outbox.RelayConfig{Observer: e, Policy: soon(forever)}))
	b.wait(t, "the good ones", func([]message.Message) bool { return b.typesOf("good") == n && b.typesOf("bad") == 1 })
	e.wait(t, "a failure", func(e outbox.Event) bool { return e.Type == outbox.EventFailed })
	must(t, stop())
	w.mu.Lock()
	defer w.mu.Unlock()
	if failures := g.count(t, "select count(*) from once_outbox_failed"); w.count["failed"] == 0 || failures < 2*w.count["failed"] {
		t.Errorf("%d statements for %d failures", w.count["failed"], failures)
	}
	for _, st := range w.writes {
		if !strings.Contains(st.SQL, "from once_hold where") {
			t.Errorf("no fence: %s", st.SQL)
		}
	}
}

// TestRelayBlockedKeyReads: what waits behind a failing message is read once, and then not again before it is free.
func TestRelayBlockedKeyReads(t *testing.T) {
	t.Parallel()
	g := newPgx(t)
	const n = 3000
	g.exec(t, `insert into once_outbox (part, topic, key, seq, event_id, event_type, source, headers, payload, encrypted, trace)
 select case when i % 10 = 0 then 0 else 1 + i % 63 end, 'refunds', case when i % 10 = 0 then 'bad' else '' end, case when i % 10 = 0 then i / 10 + 1 end,
 gen_random_uuid(), 'refund.succeeded', 'once', '', '', false, '' from generate_series(0, ?::int - 1) i`, n)
	w := &readStore[pgxTx]{SQL: g.store}
	b, e := newInbox(), newEvents()
	tries := 0
	b.setRefuse(func(m message.Message) error {
		if m.Key == "bad" {
			tries++
			return errRefused
		}
		return nil
	})
	stop := start(t, g.relayOf(outbox.New(w, outbox.Config{}), b, outbox.RelayConfig{Batch: 100, Policy: soon(forever), Observer: e}))
	b.waitFor(t, n-n/10)
	e.wait(t, "ten attempts", func(e outbox.Event) bool { return e.Message.Delivery >= 10 })
	must(t, stop())
	if most := n + tries + 100; w.rows > most {
		t.Errorf("%d rows were read for %d messages and %d attempts", w.rows, n, tries)
	}
}
