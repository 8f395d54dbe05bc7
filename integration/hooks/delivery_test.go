package hooks

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/upkeep"
	"github.com/oncelib/once/webhook"
)

// attempt writes down an attempt of the relay for each delivery of an endpoint whose type is kind, and removes or stops the delivery as the relay does.
func (g *fixture[TX]) attempt(t *testing.T, e webhook.Endpoint, kind string, status int, stop bool) {
	t.Helper()
	of := " where endpoint = (select id from once_webhook_endpoint where uid = ?) and event in (select id from once_webhook_event where type = ?)"
	g.exec(t, "insert into once_webhook_attempt (endpoint, event, at, micros, status, error, size, answer, encrypted, cause, host) select endpoint, event, NOW, 1500, ?, '', 5, ?, ?, cause, '203.0.113.7' from once_webhook_delivery"+of,
		int64(status), []byte("hello"), false, e.ID, kind)
	switch {
	case status/100 == 2:
		g.exec(t, "delete from once_webhook_delivery"+of, e.ID, kind)
	case stop:
		g.exec(t, "update once_webhook_delivery set due_at = null, attempts = attempts + 1"+of, e.ID, kind)
	default:
		g.exec(t, "update once_webhook_delivery set attempts = attempts + 1"+of, e.ID, kind)
	}
}

// sendMany sends n events in few operations.
func (g *fixture[TX]) sendMany(t *testing.T, n int, kind string) {
	t.Helper()
	list := make([]webhook.Event, n)
	for i := range list {
		list[i] = event("acme", kind)
	}
	for part := range slices.Chunk(list, 100) {
		g.send(t, part...)
	}
}

// TestDeliveriesAreListed: what waits, what ran out and what was delivered is listed, page by page, each once, with its last attempt; and one with all its attempts.
func TestDeliveriesAreListed(t *testing.T) {
	testenv.Both(t)
	on(t, testDeliveriesAreListed[pgx.Tx], testDeliveriesAreListed[*sql.Tx])
}

func testDeliveriesAreListed[TX any](t *testing.T, g *fixture[TX]) {
	es := g.hooks.Endpoints()
	e := g.endpoint(t, "acme", "*")
	other := g.endpoint(t, "acme", "*", "other")
	for _, kind := range []string{"done", "fails", "stopped", "new"} {
		g.send(t, event("acme", kind), event("acme", kind))
	}
	g.attempt(t, e, "done", 500, false)
	g.attempt(t, e, "done", 200, false)
	g.attempt(t, e, "fails", 503, false)
	g.attempt(t, e, "stopped", 400, true)
	g.attempt(t, other, "new", 200, false)
	for state, want := range map[webhook.DeliveryState]string{
		"":                        "new waiting 0 0, new waiting 0 0, stopped stopped 1 400, stopped stopped 1 400, fails waiting 1 503, fails waiting 1 503, done delivered 0 200, done delivered 0 200",
		webhook.DeliveryWaiting:   "new waiting 0 0, new waiting 0 0, fails waiting 1 503, fails waiting 1 503",
		webhook.DeliveryStopped:   "stopped stopped 1 400, stopped stopped 1 400",
		webhook.DeliveryDelivered: "done delivered 0 200, done delivered 0 200",
	} {
		for _, limit := range []int{1, 3, 4, 200} {
			var got []string
			before, pages := "", 0
			for more := true; more; pages++ {
				var list []webhook.Delivery
				var err error
				list, more, err = es.Deliveries(t.Context(), "acme", e.ID, webhook.DeliveryFilter{State: state, Before: before, Limit: limit})
				must(t, err)
				if len(list) > limit || len(list) == 0 {
					t.Fatalf("%d deliveries on a page of %d", len(list), limit)
				}
				for _, d := range list {
					got = append(got, fmt.Sprintf("%s %s %d %d", d.Type, d.State, d.Failures, d.Last.Status))
				}
				before = list[len(list)-1].Event
			}
			if text := strings.Join(got, ", "); text != want || pages != (len(got)+limit-1)/limit {
				t.Errorf("%q in %d pages of %d:\n%s, want\n%s", state, pages, limit, text, want)
			}
		}
	}
	list, _, err := es.Deliveries(t.Context(), "acme", e.ID, webhook.DeliveryFilter{State: webhook.DeliveryDelivered})
	must(t, err)
	d, attempts, err := es.Delivery(t.Context(), "acme", e.ID, list[0].Event)
	must(t, err)
	if len(attempts) != 2 || attempts[0].Status != 200 || attempts[1].Status != 500 || string(attempts[0].Answer) != "hello" || attempts[0].Duration != 1500*time.Microsecond || d.Event != list[0].Event {
		t.Errorf("%+v: %+v", d, attempts)
	}
	unknown := g.endpoint(t, "acme", "never")
	if _, _, err := es.Delivery(t.Context(), "acme", unknown.ID, list[0].Event); !errors.Is(err, webhook.ErrNotFound) {
		t.Errorf("an event that was not for an endpoint: %v", err)
	}
}

// TestResendSendsOnce: what was delivered, ran out, waits or was never for an endpoint is sent again once, however often it is asked for.
func TestResendSendsOnce(t *testing.T) {
	testenv.Both(t)
	on(t, testResend[pgx.Tx], testResend[*sql.Tx])
}

func testResend[TX any](t *testing.T, g *fixture[TX]) {
	es := g.hooks.Endpoints()
	e := g.endpoint(t, "acme", "a.*")
	ids := map[string]string{}
	for _, kind := range []string{"a.done", "a.stopped", "a.waits", "unwanted"} {
		v := event("acme", kind)
		v.ID = "msg_" + strings.ReplaceAll(kind, ".", "_")
		ids[kind] = v.ID
		g.send(t, v)
	}
	g.attempt(t, e, "a.done", 204, false)
	g.attempt(t, e, "a.stopped", 500, true)
	g.attempt(t, e, "a.waits", 500, false)
	g.exec(t, "update once_webhook_delivery set due_at = AGO(?) where due_at is not null", -time.Hour.Microseconds())
	for _, id := range ids {
		if succeeded, _ := together(t, 3, webhook.ErrNotFound, func() error { return es.Resend(t.Context(), "acme", e.ID, id) }); succeeded != 3 {
			t.Errorf("%s: %d", id, succeeded)
		}
	}
	g.want(t, "acme [a.*] a.done", "acme [a.*] a.stopped", "acme [a.*] a.waits", "acme [a.*] unwanted")
	for kind, attempts := range map[string]int{"a.done": 0, "a.stopped": 0, "a.waits": 1, "unwanted": 0} { // what ran out begins again, what waits goes on
		// Each Resend in the same instant writes a slightly later time.
		if n := g.count(t, "select count(*) from once_webhook_delivery d join once_webhook_event v on v.id = d.event where v.type = ? and d.attempts = ? and d.due_at <= AGO(?) and d.cause = 'resend'", kind, int64(attempts), -time.Second.Microseconds()); n != 1 {
			t.Errorf("%s is not due with %d attempts", kind, attempts)
		}
	}
	other := g.endpoint(t, "other", "*")
	must(t, second2(es.Disable(t.Context(), "acme", e.ID)))
	for name, err := range map[string]error{
		"an event of another tenant": es.Resend(t.Context(), "other", other.ID, ids["a.done"]),
		"another tenant":             es.Resend(t.Context(), "other", e.ID, ids["a.done"]),
		"no event":                   es.Resend(t.Context(), "other", other.ID, "msg_none"),
	} {
		if !errors.Is(err, webhook.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := es.Resend(t.Context(), "acme", e.ID, ids["a.done"]); !errors.Is(err, webhook.ErrDisabled) {
		t.Errorf("disabled: %v", err)
	}
	if _, err := es.Test(t.Context(), "acme", e.ID); !errors.Is(err, webhook.ErrDisabled) {
		t.Errorf("a test of a disabled endpoint: %v", err)
	}
	must(t, second2(es.Enable(t.Context(), "acme", e.ID)))
	g.exec(t, "delete from once_webhook_delivery")
	g.endpoint(t, "acme", "*")
	test, err := es.Test(t.Context(), "acme", e.ID) // for this endpoint alone
	must(t, err)
	g.want(t, "acme [a.*] webhook.test")
	if d, _, err := es.Delivery(t.Context(), "acme", e.ID, test); err != nil || d.Type != webhook.TypeTest {
		t.Errorf("%+v, %v", d, err)
	}
}

func second2(_ webhook.Endpoint, err error) error { return err }

// TestClockHasJumped: what was numbered before rows that look old, because the clock of the database was wrong, is kept for as long as it says.
func TestClockHasJumped(t *testing.T) {
	testenv.Both(t)
	on(t, testClockHasJumped[pgx.Tx], testClockHasJumped[*sql.Tx])
}

func testClockHasJumped[TX any](t *testing.T, g *fixture[TX]) {
	e := g.endpoint(t, "acme", "*")
	g.sendMany(t, 20, "new")
	g.attempt(t, e, "new", 500, true)
	g.sendMany(t, 20, "looks.old")
	g.attempt(t, e, "looks.old", 500, true)
	month := (31 * 24 * time.Hour).Microseconds()
	g.exec(t, "update once_webhook_event set created_at = AGO(?) where type = 'looks.old'", month)
	g.exec(t, "update once_webhook_delivery set created_at = AGO(?) where event in (select id from once_webhook_event where type = 'looks.old')", month)
	g.exec(t, "update once_webhook_attempt set at = AGO(?) where event in (select id from once_webhook_event where type = 'looks.old')", month)
	swept, err := g.hooks.Sweep(t.Context())
	must(t, err)
	if want := (webhook.Swept{Events: 20, Undelivered: 20, Attempts: 20}); swept != want {
		t.Errorf("swept %+v, want %+v", swept, want)
	}
}

// TestSweepDeletesOldDeliveries: what is older than its retention goes, with the deliveries that wait; nothing else does. An event goes after its deliveries.
func TestSweepDeletesOldDeliveries(t *testing.T) {
	testenv.Both(t)
	on(t, testSweep[pgx.Tx], testSweep[*sql.Tx])
}

func testSweep[TX any](t *testing.T, g *fixture[TX]) {
	e := g.endpoint(t, "acme", "*")
	g.sendMany(t, 1100, "old")
	g.exec(t, "delete from once_webhook_delivery where event in (select id from (select min(id) as id from once_webhook_event) x)")
	g.attempt(t, e, "old", 500, true)
	g.exec(t, "update once_webhook_event set created_at = AGO(?)", (31 * 24 * time.Hour).Microseconds())
	g.exec(t, "update once_webhook_delivery set created_at = AGO(?)", (31 * 24 * time.Hour).Microseconds())
	g.exec(t, "update once_webhook_attempt set at = AGO(?)", (31 * 24 * time.Hour).Microseconds())
	g.send(t, event("acme", "new"), event("acme", "newer"))
	g.attempt(t, e, "new", 500, true)
	swept, err := g.hooks.Sweep(t.Context())
	must(t, err)
	if want := (webhook.Swept{Events: 1100, Undelivered: 1099, Attempts: 1099}); swept != want {
		t.Errorf("swept %+v, want %+v", swept, want)
	}
	g.want(t, "acme [*] new", "acme [*] newer")
	if n := g.count(t, "select count(*) from once_webhook_attempt"); n != 1 {
		t.Errorf("%d attempts", n)
	}
	if swept, err := g.hooks.Sweep(t.Context()); err != nil || swept != (webhook.Swept{}) {
		t.Errorf("swept again: %+v, %v", swept, err)
	}
}

// TestSweepArchives: with an archive, old events and attempts are in it as they were stored before they are deleted, and what is young is not. What an
// archive refuses stays.
func TestSweepArchives(t *testing.T) {
	testenv.Both(t)
	on(t, testSweepArchives[pgx.Tx], testSweepArchives[*sql.Tx])
}

func testSweepArchives[TX any](t *testing.T, g *fixture[TX]) {
	e := g.endpoint(t, "acme", "*")
	g.sendMany(t, 510, "old") // more than a batch
	g.attempt(t, e, "old", 500, true)
	g.exec(t, "update once_webhook_event set created_at = AGO(?)", (31 * 24 * time.Hour).Microseconds())
	g.exec(t, "update once_webhook_attempt set at = AGO(?)", (31 * 24 * time.Hour).Microseconds())
	// A young one among them, of a transaction that was slow.
	g.exec(t, "update once_webhook_event set created_at = NOW where id in (select id from (select min(id) + 5 as id from once_webhook_event) x)")
	g.send(t, event("acme", "new"))
	g.attempt(t, e, "new", 500, true)
	count := func(table string) int { return g.count(t, "select count(*) from "+table) }
	events, attempts := count("once_webhook_event"), count("once_webhook_attempt")
	var stored []byte
	must(t, g.db.Pool().Query(t.Context(), store.Statement{SQL: "select data from once_webhook_event where id = (select min(id) from once_webhook_event)"}, func(row sqlplane.Row) error { return row.Scan(&stored) }))

	full := errors.New("the disk is full")
	cfg := config()
	cfg.Archive = func(context.Context, []upkeep.Expired) error { return full }
	if _, err := webhook.New(g.db, cfg).Sweep(t.Context()); !errors.Is(err, full) || count("once_webhook_event") != events || count("once_webhook_attempt") != attempts {
		t.Errorf("%v; %d events and %d attempts are left", err, count("once_webhook_event"), count("once_webhook_attempt"))
	}
	kept := map[string]int{}
	numbers := map[string]map[int64]bool{"once_webhook_event": {}, "once_webhook_attempt": {}}
	var first []byte
	cfg.Archive = func(_ context.Context, rows []upkeep.Expired) error {
		if table := rows[0].Table; kept[table]+count(table) != map[string]int{"once_webhook_event": events, "once_webhook_attempt": attempts}[table] {
			t.Errorf("%d rows of %s are left, and %d archived", count(table), table, kept[table])
		}
		for _, e := range rows {
			var row struct {
				ID   int64
				UID  string
				Data []byte
			}
			if err := json.Unmarshal(e.Row, &row); err != nil || row.ID == 0 || row.UID != "" && (row.UID != e.Key || e.Scope != "acme") {
				t.Errorf("%s %q: %v: %s", e.Table, e.Key, err, e.Row)
			}
			if first == nil {
				first = row.Data
			}
			kept[e.Table]++
			numbers[e.Table][row.ID] = true
		}
		return nil
	}
	swept, err := webhook.New(g.db, cfg).Sweep(t.Context())
	must(t, err)
	if want := (webhook.Swept{Events: 509, Undelivered: swept.Undelivered, Attempts: int64(attempts) - 1}); swept != want || kept["once_webhook_event"] != 509 || kept["once_webhook_attempt"] != attempts-1 {
		t.Errorf("swept %+v, want %+v; archived %v", swept, want, kept)
	}
	if len(numbers["once_webhook_event"]) != 509 || len(numbers["once_webhook_attempt"]) != attempts-1 || count("once_webhook_event") != 2 || count("once_webhook_attempt") != 1 {
		t.Errorf("%d and %d different rows are archived, %d and %d are left", len(numbers["once_webhook_event"]), len(numbers["once_webhook_attempt"]), count("once_webhook_event"), count("once_webhook_attempt"))
	}
	if len(stored) == 0 || !bytes.Equal(first, stored) {
		t.Errorf("the data of an event is archived as %q, stored as %q", first, stored)
	}
}

// TestForgetATenant: a tenant is forgotten in all tables, whichever call of the database fails on the way, and no other is.
func TestForgetATenant(t *testing.T) {
	testenv.Both(t)
	on(t, testForget[pgx.Tx], testForget[*sql.Tx])
}

func testForget[TX any](t *testing.T, g *fixture[TX]) {
	stays := g.endpoint(t, "other", "*")
	g.send(t, event("other", "a"), event("other", "b"))
	g.attempt(t, stays, "a", 500, true)
	fill := func(endpoints int) {
		for range endpoints {
			e := g.endpoint(t, "acme", "*")
			g.send(t, event("acme", "a"), event("acme", "b"))
			g.attempt(t, e, "a", 500, true)
		}
		deleted := g.endpoint(t, "acme", "*")
		g.send(t, event("acme", "a"))
		must(t, g.hooks.Endpoints().Delete(t.Context(), "acme", deleted.ID))
	}
	fill(2)
	got, err := g.hooks.By("alice", "they asked for it").Forget(t.Context(), "acme")
	must(t, err)
	if want := (webhook.Forgotten{Endpoints: 2, Events: 5, Deliveries: 9, Attempts: 2}); got != want {
		t.Errorf("forgotten %+v, want %+v", got, want)
	}
	harness.Loop(t, 5, func(n int) bool {
		g.exec(t, "delete from once_webhook_endpoint where deleted_at is not null") // each of them costs a call
		fill(1)
		faults := &faulty[TX]{Store: g.db, at: n}
		if _, err := webhook.New(faults, config()).Forget(t.Context(), "acme"); (err != nil) != faults.struck {
			t.Errorf("call %d: %v", n, err)
		}
		_, err = g.hooks.Forget(t.Context(), "acme")
		must(t, err)
		for query, want := range map[string]int{
			"select count(*) from once_webhook_endpoint where tenant = 'acme' and (url <> '' or length(secret) > 0)": 0,
			"select count(*) from once_webhook_event where tenant = 'acme'":                                          0,
			"select count(*) from once_webhook_delivery":                                                             2,
			"select count(*) from once_webhook_attempt":                                                              1,
			"select count(*) from once_webhook_event":                                                                2,
			"select count(*) from once_webhook_tenant":                                                               1,
			"select count(*) from once_webhook_endpoint where deleted_at is null":                                    1,
		} {
			if n := g.count(t, query); n != want {
				t.Errorf("%s: %d, want %d", query, n, want)
			}
		}
		return faults.struck
	})
	if n := g.count(t, "select count(*) from once_audit where action = 'webhook forget' and scope = 'acme' and who = 'alice'"); n != 1 {
		t.Errorf("%d entries of the audit", n)
	}
}
