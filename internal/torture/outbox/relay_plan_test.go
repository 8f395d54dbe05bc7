package outbox

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store"
)

// readStore records what a relay reads, and how many rows.
type readStore[TX any] struct {
	store.SQL[TX]

	mu         sync.Mutex
	statements []store.Statement
	rows       int
}

func (s *readStore[TX]) Pool() store.Runner { return readRunner[TX]{s.SQL.Pool(), s} }

type readRunner[TX any] struct {
	store.Runner

	s *readStore[TX]
}

func (r readRunner[TX]) Query(ctx context.Context, st store.Statement, each func(store.Row) error) error {
	r.s.mu.Lock()
	r.s.statements = append(r.s.statements, st)
	r.s.mu.Unlock()
	return r.Runner.Query(ctx, st, func(row store.Row) error {
		if strings.Contains(st.SQL, "payload") {
			r.s.mu.Lock()
			r.s.rows++
			r.s.mu.Unlock()
		}
		return each(row)
	})
}

// first returns the first statement with a text in it.
func (s *readStore[TX]) first(text string) (st store.Statement, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.statements {
		if strings.Contains(st.SQL, text) {
			return st, true
		}
	}
	return st, false
}

var buffers = regexp.MustCompile(`Buffers: shared (?:hit=(\d+))?(?: read=(\d+))?`)

// TestRelayPlans: claim and sweep read a range of an index of each part, whatever the backlog, and the
// claim sorts nothing.
func TestRelayPlans(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	g := newPgx(t)
	const backlog = 200_000
	g.exec(t, `insert into once_outbox (part, topic, key, seq, event_id, event_type, source, headers, payload, encrypted, trace)
 select i % 64, 'refunds', 'k' || i % 960, i / 960 + 1, gen_random_uuid(), 'refund.succeeded', 'once', '', decode(repeat('61', 200), 'hex'), false, '' from generate_series(0, ?::int - 1) i`, backlog)
	g.exec(t, "analyze once_outbox")
	w := &readStore[pgxTx]{SQL: g.store}
	b := newInbox()
	stop := start(t, g.relayOf(outbox.New(w, outbox.Config{}), b, outbox.RelayConfig{Concurrency: 1}))
	b.waitFor(t, 2000)
	for {
		if _, found := w.first("id <= "); found {
			break
		}
		b.waitFor(t, len(b.arrived())+1)
	}
	must(t, stop())
	g.exec(t, "vacuum once_outbox") // the statement of the first claim does not pass what was deleted since
	for what, text := range map[string]string{"claim": "and id > ", "sweep": "id <= "} {
		st, _ := w.first(text)
		var plan []string
		must(t, g.store.Pool().Query(t.Context(), store.Statement{SQL: "explain (analyze, buffers) " + st.SQL, Args: st.Args}, func(row store.Row) error {
			var line string
			err := row.Scan(&line)
			plan = append(plan, line)
			return err
		}))
		all := strings.Join(plan, "\n")
		n := 0
		if m := buffers.FindStringSubmatch(all); m != nil {
			for _, count := range m[1:] {
				c, _ := strconv.Atoi(count)
				n += c
			}
		}
		if what == "claim" && strings.Contains(all, "Sort") || strings.Contains(all, "Seq Scan on once_outbox ") || n == 0 || n > 5000 {
			t.Errorf("%s: %d buffers\n%s", what, n, all)
		}
		t.Logf("%s: %d buffers", what, n)
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
	b.setRefuse(func(m outbox.Message) error {
		if m.Key == "bad" {
			tries++
			return errRefused
		}
		return nil
	})
	stop := start(t, g.relayOf(outbox.New(w, outbox.Config{}), b, outbox.RelayConfig{Batch: 100, Policy: soon(forever), Observer: e}))
	b.waitFor(t, n-n/10)
	e.wait(t, "ten attempts", func(e outbox.Event) bool { return e.Message.Attempt >= 10 })
	must(t, stop())
	if most := n + tries + 100; w.rows > most {
		t.Errorf("%d rows were read for %d messages and %d attempts", w.rows, n, tries)
	}
}
