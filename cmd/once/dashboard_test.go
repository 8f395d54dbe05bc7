package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/sony/gobreaker/v2"

	"github.com/oncelib/once"
	"github.com/oncelib/once/attemptlog"
	"github.com/oncelib/once/broker/httpbroker"
	"github.com/oncelib/once/cmd/once/internal/migrate"
	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/base/gaugename"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/limit"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/onceprom"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/breaker"
	"github.com/oncelib/once/retry/retryhttp"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store/sqlstore"
	"github.com/oncelib/once/webhook"
)

// TestEveryQueryReturnsData: a Prometheus scrapes the demo's service under fire, its relay and a program that
// uses the rest. Every query of the dashboard, of the rules and of the alerts has an answer there: data, where it is not
// the comparison of an alert.
func TestEveryQueryReturnsData(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	testenv.Need(t, "prometheus", "postgresql")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	other := newOtherProgram(t)

	args := []string{"--events", "--db", testenv.NewDatabase(t)}
	service, said := serving(t, args...)
	args = append(args, "--metrics", strings.TrimSuffix(strings.TrimPrefix(said["metrics"], "http://"), "/metrics"))
	relaying := startRelay(t, args[2], other.receiver.URL+"/{topic}")

	rules, alerts := text(t, rulesDir, "rules.yml"), text(t, rulesDir, "alerts.yml")
	host := func(address string) string { return strings.Split(strings.TrimPrefix(address, "http://"), "/")[0] }
	server, err := testenv.StartPrometheus(ctx, testenv.PrometheusConfig{
		Jobs:  map[string]string{"service": host(said["metrics"]), "relay": host(relaying), "other": host(other.metrics.URL)},
		Every: 500 * time.Millisecond, Rules: []string{rules, alerts},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })

	var fire sync.WaitGroup
	ceasefire, stop := context.WithCancel(ctx)
	var address struct {
		sync.Mutex

		of string
	}
	address.of = said["serving"]
	for range 2 {
		fire.Go(func() {
			for ceasefire.Err() == nil {
				address.Lock()
				to := address.of
				address.Unlock()
				other.pay(ceasefire, to)
			}
		})
	}
	defer fire.Wait()
	defer stop()
	queries, deadline := allQueries(t, rules, alerts), time.Now().Add(3*time.Minute)
	for kills := 0; ; kills++ {
		var missing []string
		for name, query := range queries {
			n, err := server.Query(ctx, query)
			switch {
			case err != nil:
				t.Fatalf("%s: %v", name, err)
			case n == 0 && !strings.HasPrefix(name, "alert"):
				missing = append(missing, name+": "+query)
			}
		}
		if len(missing) == 0 && kills > 1 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no data:\n%s", strings.Join(missing, "\n"))
		}
		if kills == 0 || kills == 1 { // later, counters are to grow
			_ = service.Process.Kill()
			_ = service.Wait() // killed
			service, said = serving(t, args...)
			address.Lock()
			address.of = said["serving"]
			address.Unlock()
		}
		<-time.After(time.Second) // some more scrapes
	}
}

// notInTheDemo are metrics that need more than the demo has: a commit whose answer was lost.
var notInTheDemo = []string{"once_settled_total"}

// allQueries are those of the dashboard and of both files, by where they stand.
func allQueries(t *testing.T, rules, alerts string) map[string]string {
	t.Helper()
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(text(t, "../../observability/grafana/once.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	variables := strings.NewReplacer("$job", ".+", "$__rate_interval", "30s")
	for _, p := range dashboard.Panels {
		for i, target := range p.Targets {
			name := fmt.Sprintf("%s, query %d", p.Title, i+1)
			if slices.ContainsFunc(notInTheDemo, func(metric string) bool { return strings.Contains(target.Expr, metric) }) {
				name = "alert or " + name
			}
			found[name] = variables.Replace(target.Expr)
		}
	}
	expr := regexp.MustCompile(`(?m)^ +- (record|alert): ([\w:]+)\n +expr: (?:\|\n((?: {10}.+\n)+)|(.+)\n)`)
	for _, m := range expr.FindAllStringSubmatch(rules+alerts, -1) {
		found[m[1]+" "+m[2]] = m[3] + m[4]
	}
	if n := strings.Count(rules, "- record: ") + strings.Count(alerts, "- alert: ") + strings.Count(text(t, "../../observability/grafana/once.json"), `"expr"`); len(found) != n {
		t.Fatalf("%d queries of %d", len(found), n)
	}
	return found
}

func startRelay(t *testing.T, db, to string) (metrics string) {
	t.Helper()
	relay := program(t, "relay", "--db", db, "--to", to, "--metrics", "127.0.0.1:0")
	out, err := relay.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := relay.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = relay.Process.Kill(); _ = relay.Wait() })
	return linesUntil(t, out, "delivers")["metrics"]
}

// otherProgram is a client of the service and the receiver of its events, with instruments of its own.
type otherProgram struct {
	client   *http.Client
	cached   *once.Engine[*sql.Tx]
	sagas    *saga.Runner[*sql.Tx]
	receiver *httptest.Server
	metrics  *httptest.Server
}

func newOtherProgram(t *testing.T) *otherProgram {
	t.Helper()
	db, err := sqlstore.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "other.db")+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(10000)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := sqlstore.Migrate(t.Context(), db, migrate.Capabilities...); err != nil {
		t.Fatal(err)
	}
	s, err := sqlstore.New(t.Context(), db, sqlstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	// The metrics are an observer of what the watch reads, so the watch comes first, and asks what is set later.
	var sources []gauge.Source
	late := gauge.Func(func(ctx context.Context) (all []gauge.Value, err error) {
		for _, each := range sources {
			values, e := each.Gauges(ctx)
			all, err = append(all, values...), errors.Join(err, e)
		}
		return all, err
	})
	watch := gauge.NewWatch(gauge.Config{Every: 500 * time.Millisecond}, late)
	counted := onceprom.New(onceprom.Config{Gauges: watch})
	attempts := attemptlog.New(s, attemptlog.Config{})
	t.Cleanup(func() { _ = attempts.Close(context.WithoutCancel(t.Context())) })
	p := &otherProgram{cached: once.New(s, once.Config{Cache: 1 << 20, Shared: emptyCache{}, Observer: once.Observers(counted, attempts)})}
	in := inbox.New(p.cached, inbox.Config{Consumer: "other", Observer: inbox.Metrics(counted)})
	p.sagas = saga.NewRunner(s, saga.Config{Observer: saga.Metrics(counted)}, ofNoStep)
	limiter := limit.New(limit.Config{Limit: 1})
	sources = append(sources, in, saga.Gauges(s), attempts, limiter, p.cached, gauge.Func(retry.BudgetGauges), gauge.Func(noBreakerOpen))

	hooks := webhook.New(s, webhook.Config{PlainSecrets: true})
	relay := hooks.Relay(webhook.RelayConfig{Observer: webhook.RelayMetrics(counted)})
	sources = append(sources, relay, webhook.Gauges(s))
	p.receiver = httptest.NewServer(limiter.Middleware(httpbroker.Receiver(in, func(context.Context, *sql.Tx, message.Message) error { return nil }, httpbroker.ReceiverConfig{})))
	t.Cleanup(p.receiver.Close)
	registry := prometheus.NewRegistry()
	registry.MustRegister(counted)
	p.metrics = httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(p.metrics.Close)
	p.client = &http.Client{Transport: &retryhttp.Transport{
		Base: losing{}, Dialect: retryhttp.Dialect{Announce: true}, Breaker: breaker.ByHost(gobreaker.Settings{}),
		Policy: retry.Policy{Attempts: 4, Base: 5 * time.Millisecond, Observe: retry.Metrics(counted)},
	}}
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { _ = watch.Run(ctx) })
	watching.Go(func() { _ = relay.Run(ctx) })
	t.Cleanup(func() { cancel(); watching.Wait() })
	return p
}

// ofNoStep are sagas without a step.
var ofNoStep = saga.New("order", func(saga.Context, string) (string, error) { return "", nil })

func noBreakerOpen(context.Context) ([]gauge.Value, error) {
	return []gauge.Value{{Name: gaugename.BreakerOpen, Label: "service"}}, nil
}

// emptyCache is a shared cache that keeps nothing.
type emptyCache struct{}

func (emptyCache) Get(context.Context, string) ([]byte, error)              { return nil, nil }
func (emptyCache) Add(context.Context, string, []byte, time.Time) error     { return nil }
func (emptyCache) Replace(context.Context, string, []byte, time.Time) error { return nil }

// losing is a network that loses one answer in five.
type losing struct{}

func (losing) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && rand.N(5) == 0 {
		_ = resp.Body.Close()
		return nil, errors.New("the answer was lost")
	}
	return resp, err
}

// pay charges and refunds at address, uses a key for another amount, runs a saga, and looks a result up that is in the cache.
func (p *otherProgram) pay(ctx context.Context, address string) {
	charge := p.post(ctx, address+"/charges", once.NewKey(), `{"amount":5000,"currency":"EUR","customer":"ada"}`)
	key := once.NewKey()
	for _, amount := range []int{1, 1, 2} {
		p.post(ctx, address+"/refunds", key, fmt.Sprintf(`{"charge_id":%q,"amount":%d}`, charge, amount))
	}
	_, _ = saga.Do(ctx, p.sagas, ofNoStep, saga.ID{Key: key}, "")
	_, _ = once.Do(ctx, p.cached, once.Operation{Name: "look-up", Scope: "other", Key: "k"}, func(context.Context, *sql.Tx) (int, error) { return 1, nil })
}

// post returns the id of what was made, if an answer came.
func (p *otherProgram) post(ctx context.Context, to, key, body string) (id string) {
	req, err := http.NewRequestWithContext(retryhttp.WithKey(ctx, retryhttp.Key{Value: key}), http.MethodPost, to, strings.NewReader(body))
	if err != nil {
		return ""
	}
	req.Header.Set("Authorization", "Bearer acme")
	resp, err := p.client.Do(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	var made struct{ ID string }
	_ = json.NewDecoder(resp.Body).Decode(&made) // a problem has none
	return made.ID
}
