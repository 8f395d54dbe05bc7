package telemetry

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"log/slog"
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

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/oncelib/once"
	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/onceotel"
	"github.com/oncelib/once/onceprom"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/retryhttp"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/upkeep"
	"github.com/oncelib/once/telemetry"
	"github.com/oncelib/once/webhook"
	"github.com/oncelib/once/webhook/ssrf"
)

// TestOneTelemetryWiresEverything: each part of a process that is built from one Telemetry writes a line, counts, and makes a span.
func TestOneTelemetryWiresEverything(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, harness.Servers, testWiring[pgx.Tx], testWiring[*sql.Tx])
}

// lines is a log that is read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements [io.Writer].
func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// wiring is a process with all parts, as a stranger would build it.
type wiring[TX any] struct {
	fixture[TX]

	log      *lines
	spans    *tracetest.InMemoryExporter
	registry *prometheus.Registry
	tel      telemetry.Telemetry
	watch    *gauge.Watch
	engine   *once.Engine[TX]
}

func newWiring[TX any](t *testing.T, g fixture[TX]) wiring[TX] {
	t.Helper()
	w := wiring[TX]{fixture: g, log: new(lines), spans: tracetest.NewInMemoryExporter(), registry: prometheus.NewRegistry()}
	tracer, err := onceotel.New(onceotel.Config{TracerProvider: trace.NewTracerProvider(trace.WithSyncer(w.spans))})
	must(t, err)
	w.tel.Logger = slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w.watch = gauge.NewWatch(gauge.Config{Log: w.tel.Logger, Every: 20 * time.Millisecond, Timeout: 10 * time.Second})
	metrics := onceprom.New(onceprom.Config{Gauges: w.watch})
	must(t, w.registry.Register(metrics))
	w.tel.Metrics, w.tel.Tracer = metrics, tracer
	w.engine = once.New(g.store, w.tel.Engine(once.Config{}))
	return w
}

var errFirst = errors.New("the first attempt fails")

// failsFirst returns a function that fails when it is called for the first time.
func failsFirst() func() error {
	var first sync.Once
	return func() (err error) {
		first.Do(func() { err = errFirst })
		return err
	}
}

func testWiring[TX any](t *testing.T, g fixture[TX]) {
	w := newWiring(t, g)
	for name, run := range map[string]func(*testing.T, func(...func(context.Context) error)){
		"messages": w.messages, "completer": w.completer, "saga": w.saga, "webhooks": w.webhooks, "retry client": w.client, "gauges": w.gauges,
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			t.Cleanup(func() { stop(); running.Wait() })
			run(t, func(parts ...func(context.Context) error) {
				for _, part := range parts {
					running.Go(func() { _ = part(ctx) }) // until the test ends
				}
			})
		})
	}
}

// seen is what a part must have told: a part of a line, the series of a counter or gauge without "once_", and the name of a span.
type seen struct{ line, metric, span string }

// wait waits until all of it was told.
func (w wiring[TX]) wait(t *testing.T, parts map[string]seen) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		var missing []string
		for name, part := range parts {
			if !strings.Contains(w.log.String(), part.line) {
				missing = append(missing, name+" has no line "+part.line)
			}
			if !w.counted(t)[part.metric] {
				missing = append(missing, name+" has not counted "+part.metric)
			}
			if part.span != "" && !slices.ContainsFunc(w.spans.GetSpans(), func(s tracetest.SpanStub) bool { return s.Name == part.span }) {
				missing = append(missing, name+" has no span "+part.span)
			}
		}
		if len(missing) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s\n%v\n%s", strings.Join(missing, "\n"), slices.Sorted(maps.Keys(w.counted(t))), w.log)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// counted are the series that are there, and not 0 if they are counters, by name{values of labels in the order of their names}.
func (w wiring[TX]) counted(t *testing.T) map[string]bool {
	t.Helper()
	families, err := w.registry.Gather()
	must(t, err)
	found := map[string]bool{}
	for _, f := range families {
		for _, series := range f.GetMetric() {
			var values []string
			for _, l := range series.GetLabel() {
				values = append(values, l.GetValue())
			}
			if series.GetCounter() == nil || series.GetCounter().GetValue() > 0 {
				found[strings.TrimPrefix(f.GetName(), "once_")+"{"+strings.Join(values, ",")+"}"] = true
			}
		}
	}
	return found
}

// messages: an operation adds one, a relay delivers it at the second attempt, and an inbox applies it at the second attempt.
func (w wiring[TX]) messages(t *testing.T, run func(...func(context.Context) error)) {
	box := outbox.New(w.store, w.tel.Outbox(outbox.Config{}))
	in := inbox.New(w.engine, w.tel.Inbox(inbox.Config{Consumer: "billing"}))
	delivery, application := failsFirst(), failsFirst()
	apply := func(context.Context, TX, message.Message) error { return application() }
	relay := box.Relay(outbox.PublisherFunc(func(ctx context.Context, list []message.Message) []error {
		errs := make([]error, len(list))
		for i, m := range list {
			if errs[i] = delivery(); errs[i] == nil {
				_, errs[i] = in.Handle(ctx, message.Message{ID: m.ID, Topic: m.Topic, Type: m.Type, Trace: m.Trace}, apply)
			}
		}
		return errs
	}), w.tel.Relay(outbox.RelayConfig{Policy: &retry.Policy{Base: time.Millisecond}}))
	run(relay.Run)
	op := operation("order")
	op.Name = "order"
	_, err := once.Do(t.Context(), w.engine, op, func(ctx context.Context, tx TX) (string, error) {
		return "", box.Add(ctx, tx, message.Message{Topic: "orders", Type: "order.paid"})
	})
	must(t, err)
	w.wait(t, map[string]seen{
		"engine":   {"operation=order", "operations_total{new_execution,applied,order}", "order"},
		"relay":    {`outbox: failed" error="the first attempt fails"`, "outbox_deliveries_total{delivered,orders}", "send orders"},
		"inbox":    {`inbox: failed" consumer=billing`, "inbox_messages_total{applied,once}", "inbox billing"},
		"consumer": {`inbox: applied" consumer=billing`, "inbox_messages_total{failed,once}", "process orders"},
	})
	send := spanOf(w.spans.GetSpans(), "send orders")
	order := spanOf(w.spans.GetSpans(), "order")
	if len(send.Links) != 1 || send.Links[0].SpanContext.SpanID() != order.SpanContext.SpanID() {
		t.Errorf("the delivery links to %v, not to the operation", send.Links)
	}
}

func spanOf(spans tracetest.SpanStubs, name string) (s tracetest.SpanStub) {
	i := slices.IndexFunc(spans, func(s tracetest.SpanStub) bool { return s.Name == name })
	if i < 0 {
		return s
	}
	return spans[i]
}

// completer: it goes on with leased work whose handler has failed, and fails once itself.
func (w wiring[TX]) completer(t *testing.T, run func(...func(context.Context) error)) {
	encrypter, err := once.NewEncrypter(make([]byte, 32))
	must(t, err)
	leased := lease.New(w.store, w.tel.Lease(lease.Config{TTL: 200 * time.Millisecond}))
	jobs := once.New(leased, w.tel.Engine(once.Config{Encrypter: encrypter}))
	again := failsFirst()
	work := func(ctx context.Context, r *lease.Run) (string, error) {
		return lease.InTx(ctx, r, w.store, "book", func(ctx context.Context, tx TX) (string, error) {
			_, err := w.pay("job")(ctx, tx)
			return "booked", errors.Join(err, again())
		})
	}
	_, _ = once.Do(t.Context(), jobs, once.Operation{Name: "job", Scope: "s", Key: "job", Request: []byte("r")}, func(ctx context.Context, r *lease.Run) (string, error) {
		if _, err := lease.InTx(ctx, r, w.store, "begin", func(context.Context, TX) (string, error) { return "", nil }); err != nil {
			return "", err
		}
		return "", errors.New("the process is about to end")
	})
	run(w.tel.Completer(lease.Completer{Store: leased, Encrypter: encrypter, Every: 20 * time.Millisecond, Handlers: lease.Handlers{"job": func(ctx context.Context, op once.Operation) error {
		_, err := once.Do(ctx, jobs, op, work)
		return err
	}}}).Run)
	w.wait(t, map[string]seen{"completer": {"the first attempt fails", "operations_total{new_execution,applied,job}", "phase book"}})
}

// saga: its step fails once.
func (w wiring[TX]) saga(t *testing.T, _ func(...func(context.Context) error)) {
	again := failsFirst()
	step := saga.Tx("reserve", func(context.Context, TX, string) (string, error) { return "", again() }).Last()
	order := saga.New("order", func(ctx saga.Context, in string) (string, error) { return step.Do(ctx, in) }, step)
	runner := saga.NewRunner(w.store, w.tel.Saga(saga.Config{Backoff: time.Millisecond}), order)
	_, err := saga.Do(t.Context(), runner, order, saga.ID{Key: "order"}, "")
	must(t, err)
	w.wait(t, map[string]seen{"saga": {"a step of a saga has failed", "sagas_total{completed,order}", "step reserve"}})
}

// webhooks: the endpoint fails once.
func (w wiring[TX]) webhooks(t *testing.T, run func(...func(context.Context) error)) {
	again := failsFirst()
	endpoint := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		if again() != nil {
			rw.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(endpoint.Close)
	at, err := url.Parse(endpoint.URL)
	must(t, err)
	port, err := strconv.ParseUint(at.Port(), 10, 16)
	must(t, err)
	hooks := webhook.New(w.store, w.tel.Webhook(webhook.Config{PlainSecrets: true, Guard: &ssrf.Guard{
		AllowHTTP: true, AllowPorts: []uint16{uint16(port)}, AllowPrefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	}}))
	_, _, err = hooks.Endpoints().Create(t.Context(), webhook.Endpoint{Tenant: "acme", URL: endpoint.URL, Types: []string{"*"}})
	must(t, err)
	run(hooks.Relay(w.tel.WebhookRelay(webhook.RelayConfig{Schedule: []time.Duration{time.Millisecond, time.Millisecond}})).Run)
	_, err = once.Do(t.Context(), w.engine, operation("hook"), func(ctx context.Context, tx TX) (string, error) {
		return "", hooks.Send(ctx, tx, webhook.Event{Tenant: "acme", Type: "order.paid", Data: []byte("{}")})
	})
	must(t, err)
	w.wait(t, map[string]seen{"webhooks": {"webhook: failed", "webhook_attempts_total{delivered}", "webhook order.paid"}})
}

// client: its call is given up.
func (w wiring[TX]) client(t *testing.T, _ func(...func(context.Context) error)) {
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusServiceUnavailable) }))
	t.Cleanup(server.Close)
	client := retryhttp.NewClient(w.tel.Client(&retryhttp.Transport{Policy: retry.Policy{Attempts: 2, Base: time.Millisecond}}))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
	must(t, err)
	resp, err := client.Do(req)
	must(t, err)
	must(t, resp.Body.Close())
	host := strings.TrimPrefix(server.URL, "http://")
	w.wait(t, map[string]seen{
		"retry client": {"retry: the client has given up a call", "retry_calls_total{" + host + ",given_up}", "call GET"},
		"its attempts": {"retry: the client has given up a call", "retry_attempts_total{unknown," + host + "}", "GET"},
	})
}

// gauges: a source fails. Gauges have no span: they are no call, and a trace of each look would hide those that are.
func (w wiring[TX]) gauges(t *testing.T, run func(...func(context.Context) error)) {
	backlogger, ok := store.As[upkeep.Backlogger](w.store)
	if !ok {
		t.Fatal("the store has no backlog")
	}
	w.watch.Add(gauge.Func(func(context.Context) ([]gauge.Value, error) { return nil, errFirst }), gauge.Operations(backlogger))
	run(w.watch.Run)
	w.wait(t, map[string]seen{"gauges": {"gauge: a source of gauges has failed", "unfinished_operations{}", ""}})
}
