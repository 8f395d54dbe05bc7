package hookrelay

import (
	"context"
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

// TestLockedEndpoint: while the row of an endpoint that is to be disabled is locked by another transaction, the outcomes of others are written down, and others
// are disabled. It is disabled when the transaction has ended.
func TestLockedEndpoint(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	harness.Each(t, []string{harness.Pgx, harness.Postgres, harness.MariaDB, harness.MySQL}, func(t *testing.T, kind string) { // on SQLite one transaction writes at a time
		g := newFixture(t, kind)
		g.endpoints(t, endpoint{id: 1, uid: "ep_locked", tenant: "a"}, endpoint{id: 2, uid: "ep_gone", tenant: "b"}, endpoint{id: 3, uid: "ep_fails", tenant: "c"})
		g.to.set("ep_locked", fails(http.StatusGone))
		g.to.set("ep_gone", fails(http.StatusGone))
		g.to.set("ep_fails", func(n int, _ *http.Request, _ http.ResponseWriter) int {
			if n <= 3 {
				return http.StatusServiceUnavailable
			}
			return http.StatusOK
		})
		seen := newEvents()
		must(t, g.db.Within(t.Context(), store.ReadCommitted, func(ctx context.Context, r sqlplane.Runner) error {
			if _, err := r.Exec(ctx, harness.Text(g.db, "update once_webhook_endpoint set description = 'locked' where id = 1")); err != nil {
				return err
			}
			g.start(t, nil, webhook.RelayConfig{Observer: seen, Schedule: soon(10)})
			g.send(t, "a", "a", 1)
			g.to.waitFor(t, "ep_locked", 1)
			g.send(t, "b", "b", 1)
			seen.wait(t, webhook.EventDisabled, "ep_gone", 1)
			g.send(t, "c", "c", 1)
			seen.wait(t, webhook.EventDelivered, "ep_fails", 1)
			if n := g.count(t, "select count(*) from once_webhook_attempt where endpoint = 3"); n != 4 {
				t.Errorf("%d attempts are kept while the transaction is open, want 4", n)
			}
			return nil
		}))
		seen.wait(t, webhook.EventDisabled, "ep_locked", 1)
	})
}

// TestLockedDeliveries: while another transaction has locked delivery rows of two endpoints, the outcomes of all other deliveries are written, also those of an ordered endpoint, of an
// endpoint that fails, and of other deliveries of the same endpoint. When the transaction has ended, the rest is written, and nothing is sent again.
func TestLockedDeliveries(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	harness.Each(t, []string{harness.Pgx, harness.Postgres, harness.MariaDB, harness.MySQL}, func(t *testing.T, kind string) { // on SQLite one transaction writes at a time
		const locked, healthy, each = 20, 50, 5
		g := newFixture(t, kind)
		g.endpoints(t, endpoint{id: 1, uid: "ep_locked", tenant: "a"}, endpoint{id: 2, uid: "ep_bad", tenant: "b"}, endpoint{id: 3, uid: "ep_healthy", tenant: "c"},
			endpoint{id: 4, uid: "ep_ordered", tenant: "c", ordered: true}, endpoint{id: 5, uid: "ep_fails", tenant: "d"})
		once := func(n int, _ *http.Request, _ http.ResponseWriter) int {
			return map[bool]int{true: http.StatusServiceUnavailable, false: http.StatusOK}[n <= 2]
		}
		g.to.set("ep_bad", once)
		g.to.set("ep_fails", once)
		g.send(t, "a", "a", locked)
		g.send(t, "b", "b", 2)
		seen := newEvents()
		must(t, g.db.Within(t.Context(), store.ReadCommitted, func(ctx context.Context, r sqlplane.Runner) error {
			for _, endpoint := range []int{1, 2} {
				if _, err := r.Exec(ctx, harness.Text(g.db, "update once_webhook_delivery set part = part where endpoint = ?", endpoint)); err != nil {
					return err
				}
			}
			g.start(t, nil, webhook.RelayConfig{Observer: seen, Schedule: soon(10)})
			g.to.waitFor(t, "ep_locked", locked)
			g.to.waitFor(t, "ep_bad", 2)
			g.send(t, "a", "free", each)
			g.send(t, "c", "c", healthy)
			g.send(t, "d", "d", each)
			seen.wait(t, webhook.EventDelivered, "ep_healthy", healthy)
			seen.wait(t, webhook.EventDelivered, "ep_ordered", healthy)
			seen.wait(t, webhook.EventDelivered, "ep_fails", each)
			seen.wait(t, webhook.EventDelivered, "ep_locked", each)
			told := seen.wait(t, webhook.EventDatabase, "ep_locked", 1)
			if told.Err == nil || !strings.Contains(told.Err.Error(), "has locked rows of once_webhook_delivery") {
				t.Errorf("the observer was told %v", told.Err)
			}
			if n := g.count(t, "select count(*) from once_webhook_attempt where endpoint < 3"); n != each {
				t.Errorf("%d attempts of endpoints with locked rows are kept while the transaction is open, want %d", n, each)
			}
			return nil
		}))
		g.settled(t, seen, locked+2+2*healthy+2*each)
		if n := len(g.to.arrived("ep_locked")); n != locked+each {
			t.Errorf("%d requests for %d deliveries", n, locked+each)
		}
		if n := g.count(t, "select count(*) from once_webhook_attempt"); n != len(g.to.arrived("")) {
			t.Errorf("%d attempts are kept of %d requests", n, len(g.to.arrived("")))
		}
	})
}

// TestFailedLongAgo: an endpoint that has failed long ago, and was delivered to since, is not disabled when it fails again, although the relay that had delivered was killed before it
// wrote down how the endpoint is doing. Its owner hears nothing.
func TestFailedLongAgo(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) {
		const day = 24 * time.Hour
		g := newFixture(t, kind)
		g.endpoints(t, endpoint{id: 1, uid: "ep_1", tenant: "a"})
		g.to.set("ep_1", func(n int, _ *http.Request, _ http.ResponseWriter) int {
			return map[bool]int{true: http.StatusServiceUnavailable, false: http.StatusOK}[n <= 2]
		})
		g.exec(t, "insert into once_webhook_state (endpoint, part, failures, failing_since, told) values (1, 1, 1, AGO(?), 0)", (6 * day).Microseconds())
		g.exec(t, "insert into once_webhook_attempt (endpoint, event, at, micros, status, error, size, answer, encrypted, cause) values (1, 1000, AGO(?), 1, 200, '', 0, ?, false, '')", (5 * day).Microseconds(), []byte{})
		g.send(t, "a", "e", 1)
		seen := newEvents()
		stop := g.start(t, nil, webhook.RelayConfig{Observer: seen, Schedule: soon(10)})
		seen.wait(t, webhook.EventDelivered, "ep_1", 1)
		stop()
		if n := g.count(t, "select count(*) from once_webhook_endpoint where disabled_at is not null"); n > 0 || seen.count(webhook.EventDisabled) > 0 {
			t.Error("it is disabled")
		}
		if n := g.count(t, "select count(*) from once_webhook_event where uid <> 'e-0'"); n > 0 {
			t.Error("its owner was told")
		}
		if n := g.count(t, "select count(*) from once_webhook_state"); n > 0 {
			t.Error("it still counts as failing")
		}
	})
}
