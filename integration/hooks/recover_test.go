package hooks

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/webhook"
)

// TestRecoverAndReplay: what ran out in a period becomes due again, and what was missed is sent, in small transactions that are audited. Whichever of them fails or has its
// answer lost, asking again makes the rest, nothing is sent twice, and nothing else is.
func TestRecoverAndReplay(t *testing.T) {
	testenv.Both(t)
	on(t, testRecoverAndReplay[pgx.Tx], testRecoverAndReplay[*sql.Tx])
}

func testRecoverAndReplay[TX any](t *testing.T, g *fixture[TX]) {
	e := g.endpoint(t, "acme", "ran.*", "missed.*", "done")
	g.endpoint(t, "other", "*")
	const many = 230 // three transactions
	g.sendMany(t, 5, "ran.before")
	g.exec(t, "update once_webhook_event set created_at = AGO(?)", (48 * time.Hour).Microseconds())
	g.exec(t, "update once_webhook_delivery set created_at = AGO(?)", (48 * time.Hour).Microseconds())
	g.sendMany(t, many, "ran.out")
	g.sendMany(t, 3, "done")
	g.attempt(t, e, "ran.before", 500, true)
	g.attempt(t, e, "ran.out", 500, true)
	g.attempt(t, e, "done", 200, false)
	es := g.hooks.By("alice", "they were down").Endpoints()
	must(t, second2(es.Disable(t.Context(), "acme", e.ID)))
	g.sendMany(t, many, "missed.it")
	g.sendMany(t, 3, "unwanted")
	since := webhook.Period{Since: time.Now().Add(-time.Hour)}
	if _, err := es.Recover(t.Context(), "acme", e.ID, since); !errors.Is(err, webhook.ErrDisabled) {
		t.Errorf("disabled: %v", err)
	}
	must(t, second2(es.Enable(t.Context(), "acme", e.ID)))
	for _, name := range []string{"recover", "replay"} {
		do := everyOf(name)
		if _, err := do(es, t.Context(), "other", e.ID, since); !errors.Is(err, webhook.ErrNotFound) {
			t.Errorf("%s: another tenant: %v", name, err)
		}
		if n, err := do(es, t.Context(), "acme", e.ID, webhook.Period{Since: time.Now().Add(-40 * time.Hour), Until: time.Now().Add(-39 * time.Hour)}); n != 0 || err != nil {
			t.Errorf("%s: %d of an hour without events: %v", name, n, err)
		}
		// Each call of the database fails once.
		struck := 0
		for n := 1; ; n++ {
			faults := &faulty[TX]{Store: g.db, at: n}
			hooks := webhook.New(faults, config()).By("alice", "they were down")
			_, err := do(hooks.Endpoints(), t.Context(), "acme", e.ID, since)
			if !faults.struck {
				must(t, err)
				break
			}
			struck++
		}
		if n, err := do(es, t.Context(), "acme", e.ID, since); n != 0 || err != nil {
			t.Errorf("%s: %d more the second time: %v", name, n, err)
		}
		due := g.count(t, "select count(*) from once_webhook_delivery where cause = ? and attempts = 0 and due_at is not null", name)
		audited := g.count(t, "select count(*) from once_audit where action = ? and who = 'alice' and scope = 'acme'", "webhook "+name)
		if due != many || audited < 3 {
			t.Errorf("%s: %d became due, in %d audited transactions", name, due, audited)
		}
		if struck < 8 {
			t.Errorf("vacuous: %d calls have failed", struck)
		}
	}
	if n := g.count(t, "select count(*) from once_webhook_delivery where due_at is null"); n != 5 {
		t.Errorf("%d that ran out before wait for a person, want 5", n)
	}
	if n := g.count(t, "select count(*) from once_webhook_delivery"); n != 5+2*many {
		t.Errorf("%d deliveries", n)
	}
	// At a rate, no two become due at once, and the last one as late as the rate says.
	for name, again := range map[string]string{"recover": "update once_webhook_delivery set due_at = null", "replay": "delete from once_webhook_delivery where event in (select id from once_webhook_event where type = 'missed.it')"} {
		g.exec(t, again)
		n, err := everyOf(name)(es, t.Context(), "acme", e.ID, webhook.Period{Since: since.Since, Rate: 0.001})
		must(t, err)
		times := g.count(t, "select count(distinct due_at) from once_webhook_delivery where cause = ?", name)
		if last := g.count(t, "select count(*) from once_webhook_delivery where cause = ? and due_at > AGO(?)", name, -(n-2)*1_000_000_000); n < many || times != int(n) || last != 1 {
			t.Errorf("%s: %d became due at %d times, and %d as the last one", name, n, times, last)
		}
	}
}

// TestReplayAfterClockJump: where the clock of the database was wrong for some time, in either direction, Recover and Replay miss nothing of a period, and nothing from before it comes.
func TestReplayAfterClockJump(t *testing.T) {
	testenv.Both(t)
	on(t, testReplayAfterClockJump[pgx.Tx], testReplayAfterClockJump[*sql.Tx])
}

func testReplayAfterClockJump[TX any](t *testing.T, g *fixture[TX]) {
	const day, each = 24 * time.Hour, 120
	e := g.endpoint(t, "acme", "*")
	times := []time.Duration{2 * day, 0, 3 * day, -3 * day, 0, -2 * day} // before now; the last events are later than the period
	for i, ago := range times {
		kind := fmt.Sprintf("sent.%d", i)
		g.sendMany(t, each, kind)
		g.exec(t, "update once_webhook_event set created_at = AGO(?) where type = ?", ago.Microseconds(), kind)
	}
	for _, name := range []string{"replay", "recover"} {
		g.exec(t, map[string]string{"replay": "delete from once_webhook_delivery", "recover": "update once_webhook_delivery set due_at = null, attempts = 9"}[name])
		n, err := everyOf(name)(g.hooks.Endpoints(), t.Context(), "acme", e.ID, webhook.Period{Since: time.Now().Add(-time.Hour), Until: time.Now().Add(time.Hour)})
		if must(t, err); n != each*4 {
			t.Errorf("%s: %d of %d", name, n, each*4)
		}
		in := "select count(*) from once_webhook_delivery d join once_webhook_event v on v.id = d.event where d.cause = ? and v.type in ('sent.1', 'sent.2', 'sent.3', 'sent.4')"
		if n := g.count(t, in, name); n != each*4 {
			t.Errorf("%s: %d deliveries of the period, want %d", name, n, each*4)
		}
	}
}

// everyOf is Recover or Replay.
func everyOf(name string) func(es *webhook.Endpoints, ctx context.Context, tenant, id string, p webhook.Period) (int64, error) {
	if name == "recover" {
		return (*webhook.Endpoints).Recover
	}
	return (*webhook.Endpoints).Replay
}

// TestReplayBesideSettle: what the relay has delivered, and writes down while it is replayed, is not delivered again.
func TestReplayBesideSettle(t *testing.T) {
	testenv.Both(t)
	onKinds(t, writersAtOnce, testReplayBesideSettle[pgx.Tx], testReplayBesideSettle[*sql.Tx])
}

func testReplayBesideSettle[TX any](t *testing.T, g *fixture[TX]) {
	waits := map[sqlplane.Dialect]string{
		sqlplane.PostgreSQL: "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
		sqlplane.MySQL:      "select count(*) from information_schema.innodb_trx t join information_schema.processlist p on p.id = t.trx_mysql_thread_id where p.db = database() and t.trx_state = 'LOCK WAIT'",
	}[g.db.Dialect()]
	e := g.endpoint(t, "acme", "*")
	g.send(t, event("acme", "a"))
	tx, commit := g.begin(t)
	r := g.db.On(tx)
	_, err := r.Exec(t.Context(), harness.Text(g.db, `insert into once_webhook_attempt (endpoint, event, at, micros, status, error, size, answer, encrypted, cause)
 select endpoint, event, NOW, 1, 200, '', 0, ?, false, '' from once_webhook_delivery`, []byte{}))
	must(t, err)
	_, err = r.Exec(t.Context(), harness.Text(g.db, "delete from once_webhook_delivery"))
	must(t, err)
	replayed := make(chan error, 1)
	go func() {
		_, err := g.hooks.Endpoints().Replay(context.Background(), "acme", e.ID, webhook.Period{Since: time.Now().Add(-time.Hour)})
		replayed <- err
	}()
	for g.count(t, waits) == 0 && len(replayed) == 0 {
		<-time.After(150 * time.Millisecond) // InnoDB does not refresh innodb_trx for those who read it more often
	}
	must(t, commit())
	must(t, <-replayed)
	g.want(t)
}
