package hookrelay

import (
	"database/sql"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/webhook"
)

// TestResendBesideAttempt: what a person sends again while an attempt is on its way, the last one or the one that succeeds, is sent again when that has ended.
func TestResendBesideAttempt(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	harness.Each(t, harness.All, func(t *testing.T, kind string) {
		g := newFixture(t, kind)
		g.endpoints(t, endpoint{id: 1, uid: "ep_fails", tenant: "a"}, endpoint{id: 2, uid: "ep_works", tenant: "b"})
		resent := make(chan struct{})
		g.to.set("ep_fails", func(n int, _ *http.Request, _ http.ResponseWriter) int {
			if n == 2 {
				<-resent
			}
			if n > 2 {
				return http.StatusOK
			}
			return http.StatusInternalServerError
		})
		g.to.set("ep_works", func(n int, _ *http.Request, _ http.ResponseWriter) int {
			if n == 1 {
				<-resent
			}
			return http.StatusOK
		})
		release := sync.OnceFunc(func() { close(resent) })
		t.Cleanup(release)
		seen := newEvents()
		g.start(t, nil, webhook.RelayConfig{Observer: seen, Schedule: soon(1)})
		g.send(t, "a", "a", 1)
		g.send(t, "b", "b", 1)
		g.to.waitFor(t, "ep_fails", 2)
		g.to.waitFor(t, "ep_works", 1)
		must(t, errors.Join(g.resend(t, "a", "ep_fails", "a-0"), g.resend(t, "b", "ep_works", "b-0")))
		release()
		g.to.waitFor(t, "ep_fails", 3)
		g.to.waitFor(t, "ep_works", 2)
		g.settled(t, seen, 3)
	})
}

// TestResendBesideResend: what a person sends again while the attempt of an earlier Resend is on its way is sent again when that has ended, whether it fails or succeeds.
func TestResendBesideResend(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	harness.Each(t, harness.All, func(t *testing.T, kind string) {
		g := newFixture(t, kind)
		g.endpoints(t, endpoint{id: 1, uid: "ep_fails", tenant: "a"}, endpoint{id: 2, uid: "ep_works", tenant: "b"})
		repaired := make(chan struct{})
		for uid, second := range map[string]int{"ep_fails": http.StatusInternalServerError, "ep_works": http.StatusOK} {
			g.to.set(uid, func(n int, _ *http.Request, _ http.ResponseWriter) int {
				switch n {
				case 1:
					return http.StatusInternalServerError
				case 2:
					<-repaired
					return second
				}
				return http.StatusOK
			})
		}
		release := sync.OnceFunc(func() { close(repaired) })
		t.Cleanup(release)
		seen := newEvents()
		g.start(t, nil, webhook.RelayConfig{Observer: seen, Schedule: []time.Duration{24 * time.Hour, 24 * time.Hour, 24 * time.Hour}})
		g.send(t, "a", "a", 1)
		g.send(t, "b", "b", 1)
		seen.wait(t, webhook.EventFailed, "ep_fails", 1)
		seen.wait(t, webhook.EventFailed, "ep_works", 1)
		resend := func() { must(t, errors.Join(g.resend(t, "a", "ep_fails", "a-0"), g.resend(t, "b", "ep_works", "b-0"))) }
		resend()
		g.to.waitFor(t, "ep_fails", 2)
		g.to.waitFor(t, "ep_works", 2)
		resend()
		release()
		seen.wait(t, webhook.EventFailed, "ep_fails", 2)
		seen.wait(t, webhook.EventDelivered, "ep_works", 1)
		for id, uid := range []string{1: "ep_fails", 2: "ep_works"} {
			soon := g.count(t, "select count(*) from once_webhook_delivery where endpoint = ? and due_at <= AGO(?)", id, int64(-3600_000_000))
			if id > 0 && soon == 0 && len(g.to.arrived(uid)) < 3 {
				t.Fatalf("%s: the second Resend is lost", uid)
			}
		}
		g.to.waitFor(t, "ep_fails", 3)
		g.to.waitFor(t, "ep_works", 3)
		g.settled(t, seen, 3)
	})
}

// TestResendInTheSameInstant: a Resend writes a later due time than the one before, also if the clock has not moved on, so that a relay can tell them apart.
func TestResendInTheSameInstant(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) {
		g := newFixture(t, kind)
		g.endpoints(t, endpoint{id: 1, uid: "ep", tenant: "a"})
		g.send(t, "a", "a", 1)
		g.exec(t, "create table seen_due as select due_at from once_webhook_delivery where 1 = 0")
		g.exec(t, "update once_webhook_delivery set cause = 'resend', due_at = AGO(?)", int64(-900_000)) // as if the clock did not move on
		for range 3 {
			g.exec(t, "insert into seen_due select due_at from once_webhook_delivery")
			must(t, g.resend(t, "a", "ep", "a-0"))
			if n := g.count(t, "select count(*) from once_webhook_delivery where due_at > (select max(due_at) from seen_due) and due_at <= AGO(?)", int64(-1_000_000)); n != 1 {
				t.Error("the due time is not a later one, or is too late")
			}
		}
		g.exec(t, "update once_webhook_delivery set due_at = AGO(?)", int64(-3600_000_000))
		must(t, g.resend(t, "a", "ep", "a-0"))
		if n := g.count(t, "select count(*) from once_webhook_delivery where due_at <= NOW"); n != 1 {
			t.Error("a delivery that was due in an hour is not due now")
		}
	})
}

// resend sends an event again, as a person does.
func (g *fixture) resend(t *testing.T, tenant, endpoint, event string) error {
	t.Helper()
	if g.database.Kind == harness.Pgx {
		s, _ := harness.OpenPgx(t, g.database)
		return webhook.New[pgx.Tx](s, config(g.to.url)).Endpoints().Resend(t.Context(), tenant, endpoint, event)
	}
	s, _ := harness.OpenSQL(t, g.database)
	return webhook.New[*sql.Tx](s, config(g.to.url)).Endpoints().Resend(t.Context(), tenant, endpoint, event)
}
