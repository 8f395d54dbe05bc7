package restore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/operate/doctor"
	"github.com/oncelib/once/retry/journal"
	"github.com/oncelib/once/retry/retryhttp"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlstore"
	"github.com/oncelib/once/webhook"
	"github.com/oncelib/once/webhook/ssrf"
)

// used opens a database for one function, as a process does that lives so long.
func used(t *testing.T, d harness.Database, do func(*sqlstore.Store) error) error {
	t.Helper()
	s, db, err := d.SQLStore(t.Context())
	must(t, err)
	return errors.Join(do(s), db.Close())
}

// takes expects so many calls at the provider, and one effect for each name.
func (p *provider) takes(t *testing.T, when string, calls map[string]int) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !maps.Equal(p.calls, calls) {
		t.Errorf("%s, calls: %v, want %v", when, p.calls, calls)
	}
	for _, name := range slices.Sorted(maps.Keys(p.effects)) {
		if keys := p.effects[name]; len(keys) != 1 {
			t.Errorf("%s, %s has taken effect under %d keys: %v", when, name, len(keys), keys)
		}
	}
}

// order runs a saga: a step in the database, a call, and another step in the database. With lost the answer to the call does not come, and the process ends.
func order(ctx context.Context, s *sqlstore.Store, address, name string, lost bool) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	book := func(ctx context.Context, tx *sql.Tx, event string) (string, error) {
		_, err := s.On(tx).Exec(ctx, harness.Text(s, "insert into effect (consumer, event) values ('saga', ?)", event))
		return event, err
	}
	reserve := saga.Tx("reserve", book).Undo(func(context.Context, *sql.Tx, string, string) error { return errors.New("nothing is undone here") })
	charge := saga.Call("charge", func(ctx context.Context, key, name string) (string, error) {
		err := call(ctx, address, key, name)
		if lost && err == nil {
			err = errAnswerLost
			end()
		}
		return "charged", err
	}).DedupedFor(time.Hour).Undo(func(context.Context, string, string, string) error { return errors.New("nothing is undone here") })
	ship := saga.Tx("ship", book).Last()
	d := saga.New("order", func(ctx saga.Context, name string) (string, error) {
		if _, err := reserve.Do(ctx, "reserved "+name); err != nil {
			return "", err
		}
		if _, err := charge.Do(ctx, name); err != nil {
			return "", err
		}
		return ship.Do(ctx, "shipped "+name)
	}, reserve, charge, ship)
	r := saga.NewRunner(s, saga.Config{}, d)
	_, err := saga.Do(ctx, r, d, saga.ID{Tenant: "shop", Key: name}, name)
	end()
	return errors.Join(err, r.Run(ctx)) // which waits for what Do has left to others
}

// call asks a provider for something under a key.
func call(ctx context.Context, address, key, name string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(name))
	if err != nil {
		return err
	}
	req.Header.Set("Idempotency-Key", key)
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// TestRestoredSagas: a saga that was under way at the moment of the backup goes on from there, and one that the backup does not have is started again. Each
// step in the database has one effect, and so has each call at a provider that remembers its key.
func TestRestoredSagas(t *testing.T) {
	testenv.Both(t)
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) {
		d := harness.Migrated(t, kind, append([]migration.Set{saga.Migrations}, migrations...), effect)
		service := newProvider(t)
		try := func(name string, lost bool) error {
			return used(t, d, func(s *sqlstore.Store) error { return order(t.Context(), s, service.URL, name, lost) })
		}
		if err := try("open", true); err == nil {
			t.Error("an answer that is lost is one")
		}
		moment := (&pair{T: t}).now(d)
		restore := backup(t, d)
		harness.Until(t, func() error { return try("open", false) })
		must(t, try("whole", false))
		service.takes(t, "before", map[string]int{"open": 2, "whole": 1})
		restore()

		f := examine(t, d, moment)["restore_sagas"]
		if f.Verdict != doctor.VerdictWarn || !strings.HasPrefix(f.Says, "1 saga ") || len(f.First) != 1 || !strings.Contains(f.First[0], "open") || !strings.Contains(f.Try, "once saga list") {
			t.Errorf("%+v", f)
		}
		harness.Until(t, func() error { return try("open", false) })
		must(t, try("whole", false))
		service.takes(t, "after the restore", map[string]int{"open": 3, "whole": 2})
		must(t, used(t, d, func(s *sqlstore.Store) error {
			for _, event := range []string{"reserved open", "shipped open", "reserved whole", "shipped whole"} {
				if n := harness.Count(t, s, "select count(*) from effect where event = ?", event); n != 1 {
					t.Errorf("%s: %d effects", event, n)
				}
			}
			return nil
		}))
		if f := examine(t, d, moment)["restore_sagas"]; f.Verdict != doctor.VerdictOK {
			t.Errorf("in the end: %+v", f)
		}
	})
}

// TestARestoredJournal: a request that was open at the moment of the backup is sent again under its key, although it was answered before the restore: the
// provider has one effect.
func TestARestoredJournal(t *testing.T) {
	testenv.Both(t)
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) {
		d := harness.Migrated(t, kind, append([]migration.Set{journal.Migrations}, migrations...))
		service := newProvider(t)
		resume := func() {
			t.Helper()
			must(t, used(t, d, func(s *sqlstore.Store) error {
				intents, err := journal.OpenTable(s, journal.Config{})
				must(t, err)
				r, err := journal.Resume(t.Context(), intents, &http.Client{Transport: &retryhttp.Transport{Journal: intents}}, journal.Options{})
				if r.Open+r.Held > 0 {
					err = errors.Join(err, fmt.Errorf("%+v", r))
				}
				return err
			}))
		}
		must(t, used(t, d, func(s *sqlstore.Store) error {
			intents, err := journal.OpenTable(s, journal.Config{})
			must(t, err)
			query, args, err := intents.Insert(journal.Intent{Key: "refund-1", Method: http.MethodPost, URL: service.URL, Body: []byte("refund")})
			must(t, err)
			_, err = s.Pool().Exec(t.Context(), harness.Text(s, query, args...))
			return err
		}))
		moment := (&pair{T: t}).now(d)
		restore := backup(t, d)
		resume()
		service.takes(t, "before", map[string]int{"refund": 1})
		if f := examine(t, d, moment)["restore_intents"]; f.Verdict != doctor.VerdictOK {
			t.Errorf("vacuous: %+v", f)
		}
		restore()

		if f := examine(t, d, moment)["restore_intents"]; f.Verdict != doctor.VerdictWarn || !slices.Equal(f.First, []string{"refund-1"}) || !strings.Contains(f.Try, "once journal list") {
			t.Errorf("%+v", f)
		}
		resume()
		service.takes(t, "after the restore", map[string]int{"refund": 2})
		if f := examine(t, d, moment)["restore_intents"]; f.Verdict != doctor.VerdictOK {
			t.Errorf("in the end: %+v", f)
		}
	})
}

// endpoint is a receiver of webhooks that is not restored. It counts requests by their ID.
type endpoint struct {
	*httptest.Server

	mu  sync.Mutex
	ids map[string]int
}

func (e *endpoint) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ids[r.Header.Get("Webhook-Id")]++
}

// got expects that an event has come so often, and nothing else.
func (e *endpoint) got(id string, times int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if want := map[string]int{id: times}; !maps.Equal(e.ids, want) {
		return fmt.Errorf("got %v, want %v", e.ids, want)
	}
	return nil
}

// TestRestoredWebhooks: an event that waited at the moment of the backup is delivered again under the ID that it had, so that a receiver that keeps IDs takes it for
// a duplicate. What was changed at an endpoint since is lost, and the list says so.
func TestRestoredWebhooks(t *testing.T) {
	testenv.Both(t)
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) {
		d := harness.Migrated(t, kind, append([]migration.Set{webhook.Migrations}, migrations...))
		to := &endpoint{ids: map[string]int{}}
		to.Server = httptest.NewServer(to)
		defer to.Close()
		at, err := url.Parse(to.URL)
		must(t, err)
		port, err := strconv.ParseUint(at.Port(), 10, 16)
		must(t, err)
		cfg := webhook.Config{PlainSecrets: true, Guard: &ssrf.Guard{AllowHTTP: true, AllowPorts: []uint16{uint16(port)}, AllowPrefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}
		var id string
		must(t, used(t, d, func(s *sqlstore.Store) error {
			hooks := webhook.New(s, cfg)
			_, _, err := hooks.Endpoints().Create(t.Context(), webhook.Endpoint{Tenant: "acme", URL: to.URL, Types: []string{"*"}})
			must(t, err)
			_, err = once.Do(t.Context(), once.New(s, once.Config{Observer: once.Discard}), once.Operation{Scope: "shop", Key: "1"}, func(ctx context.Context, tx *sql.Tx) (string, error) {
				return "", hooks.Send(ctx, tx, webhook.Event{Tenant: "acme", Type: "paid", Data: []byte(`{}`)})
			})
			return err
		}))
		deliver := func(times int) {
			t.Helper()
			must(t, used(t, d, func(s *sqlstore.Store) error {
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- webhook.New(s, cfg).Relay(webhook.RelayConfig{}).Run(ctx) }()
				harness.Until(t, func() error {
					if n := harness.Count(t, s, "select count(*) from once_webhook_delivery"); n > 0 {
						return fmt.Errorf("%d webhooks wait", n)
					}
					return to.got(id, times)
				})
				cancel()
				return <-ended
			}))
		}
		moment := (&pair{T: t}).now(d)
		restore := backup(t, d)
		f := examine(t, d, moment)["restore_webhooks"]
		if len(f.First) != 1 {
			t.Fatalf("vacuous: %+v", f)
		}
		id = f.First[0]
		deliver(1)
		if f := examine(t, d, moment)["restore_webhooks"]; len(f.First) != 0 {
			t.Errorf("nothing waits: %+v", f)
		}
		restore()

		if f := examine(t, d, moment)["restore_webhooks"]; f.Verdict != doctor.VerdictWarn || !strings.HasPrefix(f.Says, "1 webhook ") || !slices.Equal(f.First, []string{id}) || !strings.Contains(f.Says, "1 endpoint,") || !strings.Contains(f.Try, "once webhook endpoints") {
			t.Errorf("%+v", f)
		}
		deliver(2)
	})
}
