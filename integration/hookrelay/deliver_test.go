package hookrelay

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/webhook"
)

// soon is a schedule of many short pauses.
func soon(n int) (list []time.Duration) {
	for range n {
		list = append(list, time.Millisecond)
	}
	return list
}

// TestEventsAreDeliveredOnceAndSigned: each endpoint gets each event of its tenant once, signed, and one that fails is tried again with the same id and the same bytes.
func TestEventsAreDeliveredOnceAndSigned(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) {
		const endpoints, each = 6, 20
		g := newFixture(t, kind)
		var list []endpoint
		for i := range endpoints {
			list = append(list, endpoint{id: int64(i + 1), uid: fmt.Sprint("ep_", i), tenant: fmt.Sprint("t", i%2)})
		}
		g.endpoints(t, list...)
		g.to.set("ep_0", func(n int, _ *http.Request, w http.ResponseWriter) int {
			if n%3 == 0 {
				w.Header().Set("Retry-After", "0")
				_, _ = w.Write([]byte(strings.Repeat("x", 2000)))
				return http.StatusOK
			}
			if n%3 == 1 {
				return http.StatusTooManyRequests
			}
			return http.StatusOK
		})
		g.send(t, "t0", "before", each) // nothing wakes the relay for these
		seen := newEvents()
		g.start(t, nil, webhook.RelayConfig{Schedule: soon(100), Observer: seen})
		g.send(t, "t1", "after", each)
		g.settled(t, seen, endpoints*each)
		for i, e := range list {
			prefix := []string{"before", "after"}[i%2]
			ids := g.to.ids(e.uid)
			if len(ids) != each {
				t.Errorf("%s has got %d events of %d", e.uid, len(ids), each)
			}
			for _, a := range g.to.arrived(e.uid) {
				if want := `{"n":"` + a.id + `"}`; !strings.HasPrefix(a.id, prefix) || a.body != want || a.note != "" {
					t.Errorf("%s has got %+v, want %s", e.uid, a, want)
				}
				if i > 0 && ids[a.id] != 1 {
					t.Errorf("%s has got %s %d times", e.uid, a.id, ids[a.id])
				}
			}
		}
		failed := seen.count(webhook.EventFailed)
		if n := g.count(t, "select count(*) from once_webhook_attempt"); n != endpoints*each+failed || n != len(g.to.arrived("")) {
			t.Errorf("%d attempts are kept of %d requests, %d of which have failed", n, len(g.to.arrived("")), failed)
		}
		if n := g.count(t, "select count(*) from once_webhook_attempt where endpoint = 1 and status = 200 and size = 2000 and length(answer) = 1024"); n == 0 {
			t.Error("the beginning of an answer is not kept")
		}
		g.until(t, "endpoints are said to fail", 0, "select count(*) from once_webhook_state")
	})
}

// TestRanOut: a delivery whose last attempt has failed waits for a person, and the attempts say why.
func TestRanOut(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) {
		g := newFixture(t, kind)
		g.endpoints(t, endpoint{id: 1, uid: "ep_1", tenant: "a"})
		g.to.set("ep_1", fails(http.StatusInternalServerError))
		g.send(t, "a", "e", 1)
		seen := newEvents()
		g.start(t, nil, webhook.RelayConfig{Schedule: soon(2), Observer: seen})
		seen.wait(t, webhook.EventRanOut, "ep_1", 1)
		if n := g.count(t, "select count(*) from once_webhook_delivery where due_at is null and attempts = 3"); n != 1 {
			t.Error("the delivery does not wait for a person")
		}
		if n := g.count(t, "select count(*) from once_webhook_attempt where status = 500"); n != 3 || len(g.to.arrived("")) != 3 {
			t.Errorf("there are %d attempts, and %d requests", n, len(g.to.arrived("")))
		}
		g.until(t, "failures in a row are known", 3, "select coalesce(max(failures), 0) from once_webhook_state where endpoint = 1")
		g.to.set("ep_1", nil)
		g.exec(t, "update once_webhook_delivery set due_at = NOW, attempts = 0, cause = 'resend' where endpoint = 1")
		seen.wait(t, webhook.EventDelivered, "ep_1", 1)
		if n := g.count(t, "select count(*) from once_webhook_attempt where status = 204 and cause = 'resend'"); n != 1 || len(g.to.ids("ep_1")) != 1 {
			t.Errorf("%d attempts say that a person has sent it again; %v", n, g.to.ids("ep_1"))
		}
	})
}

// TestRetryAfterWithinSchedule: an endpoint that always asks for a day gets it, and all pauses of a delivery together are no longer than the schedule: for so long receivers keep ids.
func TestRetryAfterWithinSchedule(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) {
		const day, most = 24 * time.Hour, 75*time.Hour + 36*time.Minute // as webhook.Standard has it
		g := newFixture(t, kind)
		g.endpoints(t, endpoint{id: 1, uid: "ep_1", tenant: "a"})
		g.to.set("ep_1", func(_ int, _ *http.Request, w http.ResponseWriter) int {
			w.Header().Set("Retry-After", "86400")
			return http.StatusServiceUnavailable
		})
		g.send(t, "a", "e", 1)
		var total time.Duration
		for n := 1; n <= 10; n++ {
			seen := newEvents()
			end := run(t, g.relay(nil, webhook.RelayConfig{Observer: seen}))
			g.to.waitFor(t, "ep_1", n)
			end()
			if seen.count(webhook.EventRanOut) == 1 {
				break
			}
			failed := seen.wait(t, webhook.EventFailed, "ep_1", 1)
			pause := time.Until(failed.NextAt).Round(time.Hour)
			if total += pause; pause != day {
				t.Errorf("the pause after %d requests is %v, want %v", n, pause, day)
			}
			g.exec(t, "delete from once_webhook_state")
			g.exec(t, "update once_webhook_delivery set due_at = NOW")
		}
		if n := g.count(t, "select count(*) from once_webhook_delivery where due_at is null"); n != 1 || total < 2*day || total > most {
			t.Errorf("%d deliveries have run out; the pauses are %v together, at most %v are allowed", n, total, most)
		}
	})
}

// TestOrderedEndpointGetsEventsInOrder: an ordered endpoint gets its events one at a time in the order of their ids, and one that fails keeps the others waiting.
func TestOrderedEndpointGetsEventsInOrder(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) {
		const each = 20
		g := newFixture(t, kind)
		g.endpoints(t, endpoint{id: 1, uid: "ep_1", tenant: "a", ordered: true}, endpoint{id: 2, uid: "ep_2", tenant: "a"})
		g.to.set("ep_1", func(n int, _ *http.Request, _ http.ResponseWriter) int {
			if n%4 == 0 {
				return http.StatusInternalServerError
			}
			return http.StatusOK
		})
		g.send(t, "a", "e", each)
		for i := range each { // the last one is due first
			g.exec(t, "update once_webhook_delivery set due_at = AGO(?) where event in (select id from once_webhook_event where uid = ?)", int64(i)*1_000_000, fmt.Sprint("e-", i))
		}
		seen := newEvents()
		g.start(t, nil, webhook.RelayConfig{Schedule: soon(10), Observer: seen})
		g.settled(t, seen, 2*each)
		next := 0
		for _, a := range g.to.arrived("ep_1") {
			switch a.id {
			case fmt.Sprint("e-", next):
				next++
			case fmt.Sprint("e-", next-1): // again
			default:
				t.Fatalf("%s comes after %d events", a.id, next)
			}
		}
		if next != each || g.to.most["ep_1"] != 1 {
			t.Errorf("%d events of %d came in order, %d at once", next, each, g.to.most["ep_1"])
		}
	})
}

// TestFailingEndpointIsDisabled: an endpoint that answers 410, or fails for too long, is disabled; its owner hears of it on the way there, and what waits for it stays.
func TestFailingEndpointIsDisabled(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) {
		const total = 5 * 24 * time.Hour
		g := newFixture(t, kind)
		g.endpoints(t, endpoint{id: 1, uid: "ep_gone", tenant: "a"}, endpoint{id: 2, uid: "ep_sick", tenant: "b"}, endpoint{id: 3, uid: "ep_ops", tenant: "a"}, endpoint{id: 4, uid: "ep_ops_b", tenant: "b"})
		g.to.set("ep_gone", fails(http.StatusGone))
		g.to.set("ep_sick", fails(http.StatusBadGateway))
		g.send(t, "a", "a", 3)
		seen := newEvents()
		cfg := webhook.RelayConfig{Schedule: []time.Duration{time.Hour}, Observer: seen, DisableAfter: total}
		stop := g.start(t, nil, cfg)
		seen.wait(t, webhook.EventDisabled, "ep_gone", 1)
		g.to.wait(t, "3 events and what became of the other endpoint", func() bool { return g.to.counts["ep_ops"] >= 4 })
		if n := g.count(t, "select count(*) from once_webhook_endpoint where disabled_at is not null and disabled_by = 'gone' and uid = 'ep_gone'"); n != 1 {
			t.Error("it is not disabled")
		}
		stop()
		if n := g.count(t, "select count(*) from once_webhook_delivery where endpoint = 1 and due_at is not null"); n != 3 {
			t.Errorf("%d deliveries of 3 wait", n)
		}
		for i, step := range []struct {
			over time.Duration
			told int
		}{{total/2 - time.Hour, 0}, {total/2 + time.Hour, 50}, {total * 2 / 3, 50}, {total*3/4 + time.Hour, 75}, {total + time.Hour, 100}} {
			g.exec(t, "delete from once_webhook_state")
			told := step.told
			if told == 100 {
				told = 0 // it begins anew when a person enables it
			}
			before := 0
			if i > 0 {
				before = []int{0, 0, 50, 50, 75}[i]
			}
			g.exec(t, "insert into once_webhook_state (endpoint, part, failures, failing_since, told) values (2, 2, 1, AGO(?), ?)", step.over.Microseconds(), before)
			g.send(t, "b", fmt.Sprint("b", i), 1)
			seen := newEvents()
			cfg.Observer = seen
			r := g.relay(nil, cfg)
			end := run(t, r)
			seen.wait(t, webhook.EventFailed, "ep_sick", 1)
			end()
			if n := g.count(t, "select told from once_webhook_state where endpoint = 2"); n != told {
				t.Errorf("after %v the owner was told of %d percent, want %d", step.over, n, told)
			}
		}
		if n := g.count(t, "select count(*) from once_webhook_event where tenant = 'b' and type = '"+webhook.EventEndpointFailing+"'"); n != 2 {
			t.Errorf("the owner was told %d times that it fails", n)
		}
		if n := g.count(t, "select count(*) from once_webhook_event where tenant = 'b' and type = '"+webhook.EventEndpointDisabled+"'"); n != 1 {
			t.Errorf("the owner was told %d times that it is disabled", n)
		}
		var notice struct {
			Type      string
			Timestamp time.Time
			Data      struct{ Endpoint string }
		}
		must(t, g.db.Pool().Query(t.Context(), store.Statement{SQL: "select data from once_webhook_event where type = '" + webhook.EventEndpointDisabled + "'"}, func(row sqlplane.Row) error {
			var data []byte
			return errors.Join(row.Scan(&data), json.Unmarshal(data, &notice))
		}))
		if notice.Type != webhook.EventEndpointDisabled || notice.Timestamp.IsZero() || notice.Data.Endpoint != "ep_sick" { // as Standard Webhooks asks for
			t.Errorf("%+v", notice)
		}
		if n := g.count(t, "select count(*) from once_webhook_endpoint where disabled_by = 'failing' and uid = 'ep_sick'"); n != 1 {
			t.Error("it is not disabled")
		}
	})
}

// TestGoneBeforeAChange: an endpoint is not disabled for what it was before a person changed it: its URL may be another one now.
func TestGoneBeforeAChange(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	harness.Each(t, []string{harness.SQLite, harness.Pgx, harness.MariaDB}, func(t *testing.T, kind string) {
		g := newFixture(t, kind)
		g.endpoints(t, endpoint{id: 1, uid: "ep_1", tenant: "a"})
		changed := make(chan struct{})
		g.to.set("ep_1", func(n int, _ *http.Request, _ http.ResponseWriter) int {
			<-changed
			return first(http.StatusGone, http.StatusOK)(n, nil, nil)
		})
		g.send(t, "a", "e", 1)
		seen := newEvents()
		g.start(t, nil, webhook.RelayConfig{Observer: seen, Schedule: soon(2)})
		g.to.waitFor(t, "ep_1", 1)
		g.exec(t, "update once_webhook_endpoint set version = version + 1")
		close(changed)
		g.settled(t, seen, 1)
		if n := g.count(t, "select count(*) from once_webhook_endpoint where disabled_at is not null"); n > 0 || seen.count(webhook.EventDisabled) > 0 {
			t.Error("it is disabled")
		}
	})
}
