package hookrelay

import (
	"database/sql"
	"errors"
	"net/http"
	"sync"
	"testing"

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
