package telemetry

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/base/gaugename"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store/upkeep"
)

// read asks sources and returns the values without a label by name.
func read(t *testing.T, sources ...gauge.Source) map[string]float64 {
	t.Helper()
	found := map[string]float64{}
	for _, s := range sources {
		values, err := s.Gauges(t.Context())
		must(t, err)
		for _, v := range values {
			if v.Label == "" {
				found[v.Name] = v.Number
			} else {
				found[v.Name+" "+v.Label] = v.Number
			}
		}
	}
	return found
}

// TestGaugesMatchTheDatabase: they tell what stands in the database.
func TestGaugesMatchTheDatabase(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, harness.Servers, testGauges[pgx.Tx], testGauges[*sql.Tx])
}

func testGauges[TX any](t *testing.T, g fixture[TX]) {
	e := once.New(g.store, once.Config{Observer: once.Discard})
	box := outbox.New(g.store, outbox.Config{})
	in := inbox.New(e, inbox.Config{Consumer: "billing", Order: inbox.InOrder, Policy: &retry.Policy{Attempts: 1, Base: -1}})
	letters := deadletter.New(g.store, deadletter.Config{})

	wantGauges := func(want map[string]float64, ages ...string) {
		t.Helper()
		got := read(t, box, in, letters)
		for name, n := range want {
			if v, ok := got[name]; !ok || v != n {
				t.Errorf("%s is %v (there: %v), want %v", name, v, ok, n)
			}
		}
		for _, name := range []string{gaugename.OutboxOldestAge, gaugename.InboxParkedOldestAge} {
			grows := false
			for _, a := range ages {
				grows = grows || a == name
			}
			if v, ok := got[name]; !ok || (v > 0) != grows {
				t.Errorf("%s is %v (there: %v), want more than 0: %v", name, v, ok, grows)
			}
		}
	}
	wantGauges(map[string]float64{gaugename.OutboxMessages: 0, gaugename.OutboxFailingMessages: 0, gaugename.OutboxBlockedKeys: 0, gaugename.InboxParkedMessages: 0, gaugename.DeadLetters: 0})

	_, err := once.Do(t.Context(), e, operation("add"), func(ctx context.Context, tx TX) (string, error) {
		var list []message.Message
		for i := range 3 {
			list = append(list, message.Message{Topic: "paid", Key: fmt.Sprint("k", i), Type: "paid"})
		}
		return "", box.Add(ctx, tx, list...)
	})
	must(t, err)
	g.exec(t, `insert into once_outbox_failed (part, id, topic, KEY, attempts, next_at, failed_at, error)
 select part, id, topic, KEY, 1, NOW, NOW, 'down' from once_outbox where KEY <> 'k0'`)
	for seq := range int64(5) {
		m := message.Message{ID: fmt.Sprint("k-", seq), Source: "shop", Topic: "paid", Key: "k", Seq: 2 + seq, Type: "paid"}
		if o, err := in.Handle(t.Context(), m, func(context.Context, TX, message.Message) error { return nil }); err != nil || o != inbox.Parked {
			t.Fatal(o, err)
		}
	}
	for i := range 2 {
		m := message.Message{ID: fmt.Sprint("dead-", i), Source: "shop", Topic: "paid", Type: "paid"}
		if o, err := in.Handle(t.Context(), m, func(context.Context, TX, message.Message) error { return retry.Permanent(errors.New("no")) }); err != nil || o != inbox.DeadLettered {
			t.Fatal(o, err)
		}
	}
	g.exec(t, "update once_inbox_position set moved_at = AGO(?)", int64(60_000_000)) // a key that waits for a minute
	g.exec(t, "update once_outbox set created_at = AGO(?)", int64(60_000_000))
	wantGauges(map[string]float64{gaugename.OutboxMessages: 3, gaugename.OutboxFailingMessages: 2, gaugename.OutboxBlockedKeys: 2, gaugename.OutboxTopics + " failing": 1, gaugename.OutboxTopics + " down": 0, gaugename.ConsumerHangingHandlers: 0, gaugename.InboxParkedMessages: 5, gaugename.DeadLetters: 2},
		gaugename.OutboxOldestAge, gaugename.InboxParkedOldestAge)
	got := read(t, box, in)
	for _, name := range []string{gaugename.OutboxOldestAge, gaugename.OutboxReadyOldestAge, gaugename.InboxParkedOldestAge} {
		if got[name] < 59 || got[name] > 3600 {
			t.Errorf("%s is %v, want a minute", name, got[name])
		}
	}
	must(t, func() error {
		_, err := letters.Discard(t.Context(), deadletter.Filter{Topic: "paid"}, "test", "they are not needed")
		return err
	}())
	wantGauges(map[string]float64{gaugename.DeadLetters: 0}, gaugename.OutboxOldestAge, gaugename.InboxParkedOldestAge)
}

// TestGaugesAreBounded: no gauge counts more than 100,000, so that none reads more.
func TestGaugesAreBounded(t *testing.T) {
	t.Parallel()
	g := newSQL(t, harness.SQLite)
	const more = "with recursive n (i) as (select 1 union all select i + 1 from n where i < 100100) "
	g.exec(t, more+"insert into once_outbox (part, topic, key, event_id, event_type, source, headers, payload, encrypted, trace, created_at) select 1, 't', 'k' || i, 'e' || i, 't', 's', x'', x'', 0, '', 0 from n")
	g.exec(t, more+"insert into once_outbox_failed (part, id, topic, key, attempts, next_at, failed_at, error) select 1, i, 't', 'k' || i, 1, 1, 1, '' from n")
	g.exec(t, more+`insert into once_inbox_parked (consumer, source, topic, key, seq, event_id, event_type, payload_hash, headers, payload, encrypted, trace, parked_at)
 select 'billing', 's', 't', 'k', i, '', '', x'', x'', x'', 0, '', 0 from n`)
	g.exec(t, more+`insert into once_deadletter (uid, origin, consumer, source, event_id, payload_hash, topic, key, seq, event_type, headers, payload, encrypted, trace, class, error, cause, attempts, first_failed_at, dead_at, state, redrive, reason)
 select 'u' || i, 'inbox', 'c', 's', 'e' || i, x'', 't', 'k', 0, '', x'', x'', 0, '', '', '', '', 1, 1, 1, 'dead', '', '' from n`)
	g.exec(t, more+"insert into once_saga_due (scope, key, due_at, name) select 'saga/', 'k' || i, 0, 's' || (i % 3) from n")
	e := once.New(g.store, once.Config{Observer: once.Discard})
	got := read(t, outbox.New(g.store, outbox.Config{}), inbox.New(e, inbox.Config{Consumer: "billing"}), deadletter.New(g.store, deadletter.Config{}), saga.Gauges(g.store))
	for _, name := range []string{gaugename.SagasDue, gaugename.OutboxMessages, gaugename.OutboxFailingMessages, gaugename.OutboxBlockedKeys, gaugename.InboxParkedMessages, gaugename.DeadLetters} {
		if got[name] != upkeep.MaxBacklog {
			t.Errorf("%s is %v, want %d", name, got[name], upkeep.MaxBacklog)
		}
	}
}
