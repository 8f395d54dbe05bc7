package hookrelay

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/webhook"
)

// TestRefusedOutcome: outcomes that the database refuses, for what endpoints have answered, are written without that, and those beside them as they are.
func TestRefusedOutcome(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	harness.Each(t, []string{harness.Pgx, harness.MariaDB, harness.MySQL}, func(t *testing.T, kind string) {
		const each = 10
		g := newFixture(t, kind)
		g.exec(t, "alter table once_webhook_attempt add constraint refuses check (status not in (218, 418))")
		var list []endpoint
		for i := range each {
			odd, good := fmt.Sprint("odd", i), fmt.Sprint("good", i)
			list = append(list, endpoint{id: int64(2*i + 1), uid: odd, tenant: "odd"}, endpoint{id: int64(2*i + 2), uid: good, tenant: "good"})
			g.to.set(odd, first(http.StatusTeapot, 218))
			g.to.set(good, first(http.StatusServiceUnavailable, http.StatusNoContent))
		}
		g.endpoints(t, list...)
		arrived := make(chan struct{})
		all := sync.OnceFunc(func() { close(arrived) })
		w := &watch{before: func(st store.Statement) error {
			if isSettle(st) { // so that many are written in one statement
				<-arrived
			}
			return nil
		}}
		g.send(t, "odd", "odd", 1)
		g.send(t, "good", "good", 1)
		seen := newEvents()
		g.start(t, w, webhook.RelayConfig{Observer: seen, Schedule: soon(3)})
		t.Cleanup(all)
		g.to.wait(t, "each endpoint", func() bool { return len(g.to.distinct) == 2*each })
		all()
		g.settled(t, seen, 2*each)
		for what, where := range map[string]string{
			"failures": "status = 503", "successes": "status = 204", "failures with an odd status": "status = 0 and error = 'closed'", "successes with an odd status": "status = 200 and error = ''",
		} {
			if n := g.count(t, "select count(*) from once_webhook_attempt where "+where); n != each {
				t.Errorf("%d of %d %s are kept", n, each, what)
			}
		}
		if n := len(g.to.arrived("")); n != 4*each {
			t.Errorf("%d requests have arrived, want %d", n, 4*each)
		}
	})
}

// first is an endpoint that answers so to its first request, and otherwise to all others.
func first(status, later int) behavior {
	return func(n int, _ *http.Request, _ http.ResponseWriter) int {
		if n == 1 {
			return status
		}
		return later
	}
}

// noEncrypter opens, and cannot encrypt.
type noEncrypter struct{ once.Encrypter }

// Encrypt implements once.Encrypter.
func (noEncrypter) Encrypt([]byte, []byte) ([]byte, error) { return nil, errors.New("kms: throttled") }

// TestAnswerCannotBeEncrypted: an outcome whose answer cannot be encrypted is written down without it, and not delivered again.
func TestAnswerCannotBeEncrypted(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	harness.Each(t, []string{harness.SQLite, harness.MariaDB}, func(t *testing.T, kind string) {
		const events = 5
		inner, err := once.NewEncrypter(bytes.Repeat([]byte{7}, 32))
		must(t, err)
		g := newFixture(t, kind)
		cfg := config(g.to.url)
		cfg.PlainSecrets, cfg.Encrypter = false, noEncrypter{inner}
		s, _ := harness.OpenSQL(t, g.database)
		g.hooks = func(w *watch) relayer { return webhook.New[*sql.Tx](watched[*sql.Tx]{s, w}, cfg) }
		g.endpoints(t, endpoint{id: 1, uid: "ep_1", tenant: "a"})
		g.to.set("ep_1", func(_ int, _ *http.Request, w http.ResponseWriter) int {
			_, _ = w.Write([]byte("ok"))
			return http.StatusOK
		})
		g.send(t, "a", "e", events)
		seen := newEvents()
		g.start(t, nil, webhook.RelayConfig{Observer: seen})
		g.settled(t, seen, events)
		if n := g.count(t, "select count(*) from once_webhook_attempt where status = 200 and size = 2 and length(answer) = 0 and encrypted = 0"); n != events || len(g.to.arrived("")) != events {
			t.Errorf("%d attempts are kept of %d requests for %d events", n, len(g.to.arrived("")), events)
		}
		seen.wait(t, webhook.EventSealed, "ep_1", events)
	})
}

// TestLockedDeliveryOfASealedEvent: while another transaction has locked the rows of deliveries whose events do not open or do not exist, the deliveries of other endpoints begin. When
// the transaction has ended, the former wait for their key, and the latter are deleted.
func TestLockedDeliveryOfASealedEvent(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	harness.Each(t, []string{harness.Pgx, harness.Postgres, harness.MariaDB, harness.MySQL}, func(t *testing.T, kind string) { // on SQLite one transaction writes at a time
		const sealed, good = 3, 5
		g := newFixture(t, kind)
		g.endpoints(t, endpoint{id: 1, uid: "ep_sealed", tenant: "a"}, endpoint{id: 2, uid: "ep_good", tenant: "b"})
		g.send(t, "a", "sealed", sealed)
		g.exec(t, "update once_webhook_event set encrypted = ?", true)
		g.exec(t, `insert into once_webhook_delivery (endpoint, event, part, due_at, attempts, cause, created_at) select endpoint, 1000000, part, due_at, 0, '', created_at from once_webhook_delivery where event = (select min(id) from once_webhook_event)`)
		seen := newEvents()
		must(t, g.db.Within(t.Context(), store.ReadCommitted, func(ctx context.Context, r sqlplane.Runner) error {
			if _, err := r.Exec(ctx, harness.Text(g.db, "update once_webhook_delivery set part = part where endpoint = 1")); err != nil {
				return err
			}
			g.start(t, nil, webhook.RelayConfig{Observer: seen})
			seen.wait(t, webhook.EventSealed, "ep_sealed", 1)
			g.send(t, "b", "good", good)
			seen.wait(t, webhook.EventDelivered, "ep_good", good)
			seen.wait(t, webhook.EventSealed, "ep_sealed", sealed)
			return nil
		}))
		if n := seen.count(webhook.EventDatabase); n != 0 {
			t.Errorf("%d statements have failed or waited for a lock", n)
		}
		g.until(t, "deliveries whose rows were locked do not wait for their key", sealed, "select count(*) from once_webhook_delivery where endpoint = 1 and due_at > created_at and attempts = 0")
		g.until(t, "deliveries without an event are left", sealed, "select count(*) from once_webhook_delivery")
	})
}

// TestSealedEvent: a delivery whose event does not open waits, and keeps no other one of its endpoint waiting, but for those of an ordered endpoint. It comes when it opens.
func TestSealedEvent(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	harness.Each(t, []string{harness.SQLite, harness.Pgx, harness.MariaDB}, func(t *testing.T, kind string) {
		const sealed, good = 3, 5
		g := newFixture(t, kind)
		g.endpoints(t, endpoint{id: 1, uid: "ep_1", tenant: "a"}, endpoint{id: 2, uid: "ep_2", tenant: "a", ordered: true})
		g.send(t, "a", "sealed", sealed)
		g.exec(t, "update once_webhook_event set encrypted = ?", true)
		g.send(t, "a", "good", good)
		seen := newEvents()
		g.start(t, nil, webhook.RelayConfig{Observer: seen})
		g.to.waitFor(t, "ep_1", good)
		seen.wait(t, webhook.EventSealed, "ep_1", sealed)
		seen.wait(t, webhook.EventSealed, "ep_2", 1)
		seen.wait(t, webhook.EventDelivered, "ep_1", good)
		if n := g.count(t, "select count(*) from once_webhook_delivery where endpoint = 1 and due_at > created_at and attempts = 0"); n != sealed {
			t.Fatalf("%d deliveries of %d wait for their key", n, sealed)
		}
		// The relay tells that an event does not open before it writes that the delivery waits.
		g.until(t, "deliveries to the ordered endpoint wait for their key", 1, "select count(*) from once_webhook_delivery where endpoint = 2 and due_at > created_at and attempts = 0")
		g.exec(t, "update once_webhook_event set encrypted = ?", false)
		g.exec(t, "update once_webhook_delivery set due_at = NOW")
		g.settled(t, seen, 2*(sealed+good))
		list := g.to.arrived("ep_2")
		for i, a := range list {
			want := fmt.Sprint("sealed-", i)
			if i >= sealed {
				want = fmt.Sprint("good-", i-sealed)
			}
			if a.id != want {
				t.Errorf("%s comes to the ordered endpoint as number %d", a.id, i)
			}
		}
		if n := len(g.to.arrived("")); n != 2*(sealed+good) {
			t.Errorf("%d requests have arrived", n)
		}
	})
}
