package onceotel_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/oncelib/once"
	"github.com/oncelib/once/onceotel"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/retryhttp"
	"github.com/oncelib/once/store/memstore"
	wiring "github.com/oncelib/once/telemetry"
)

// server answers with statuses, one after the other and then 200, and keeps the headers that it has got.
type server struct {
	*httptest.Server

	mu       sync.Mutex
	statuses []int
	headers  []http.Header
}

func newServer(t *testing.T, statuses ...int) *server {
	t.Helper()
	s := &server{statuses: statuses}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.headers = append(s.headers, r.Header)
		if len(s.statuses) > 0 {
			w.WriteHeader(s.statuses[0])
			s.statuses = s.statuses[1:]
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// got returns the headers of all requests so far.
func (s *server) got() []http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.headers)
}

func post(ctx context.Context, t *testing.T, transport http.RoundTripper, url string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}"))
	must(t, err)
	client := http.Client{Transport: transport}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return 0
	}
	_, err = io.Copy(io.Discard, resp.Body)
	must(t, errors.Join(err, resp.Body.Close()))
	return resp.StatusCode
}

// transport is that of a client with spans and instruments.
func (tel *telemetry) transport(of *retryhttp.Transport) *retryhttp.Transport {
	return wiring.Telemetry{Tracer: tel.Telemetry}.Client(of)
}

// quick is a policy without pauses, with a budget of its own.
func quick() retry.Policy { return retry.Policy{Base: -1, Budget: &retry.Budget{Burst: 100}} }

// TestCallHasASpanForEachAttempt: one for the call, and in it one of kind CLIENT for each attempt, which counts the repetitions and travels
// to the server. User and query of the URL are not told.
func TestCallHasASpanForEachAttempt(t *testing.T) {
	t.Parallel()
	tel, s := newTelemetry(t, onceotel.Config{}), newServer(t, http.StatusServiceUnavailable, http.StatusInternalServerError)
	ctx, parent := tel.provider.Tracer("server").Start(t.Context(), "server")
	seen := 0
	policy := quick()
	policy.Observe = func(context.Context, retry.Event) { seen++ }
	url := strings.Replace(s.URL, "http://", "http://user:secret@", 1) + "/charges?token=secret"
	if status := post(ctx, t, tel.transport(&retryhttp.Transport{Keys: true, Policy: policy}), url); status != http.StatusOK {
		t.Fatal(status)
	}
	spans := tel.take()
	call := named(t, spans, "call POST")
	if call.Parent.SpanID() != parent.SpanContext().SpanID() || call.Status.Code == codes.Error || text(call.Attributes, "once.attempts") != "3" {
		t.Errorf("%v, %v", call.Status, call.Attributes)
	}
	if got := events(&call); !slices.Equal(got, []string{"once.retry.failed", "once.retry.failed"}) {
		t.Errorf("events %q", got)
	}
	var attempts tracetest.SpanStubs
	for _, s := range spans {
		if s.Name == http.MethodPost {
			attempts = append(attempts, s)
		}
		for _, a := range s.Attributes {
			if strings.Contains(a.Value.String(), "secret") {
				t.Errorf("%s tells %s %q", s.Name, a.Key, a.Value.String())
			}
		}
	}
	headers := s.got()
	if len(attempts) != 3 || len(headers) != 3 || seen != 3 {
		t.Fatalf("%d spans, %d requests, %d events", len(attempts), len(headers), seen)
	}
	for i, a := range attempts {
		for attribute, want := range map[string]string{
			"http.request.resend_count": []string{"", "1", "2"}[i], "http.response.status_code": []string{"503", "500", "200"}[i],
			"error.type": []string{"503", "500", ""}[i], "http.request.method": "POST", "url.full": s.URL + "/charges", "server.address": "127.0.0.1",
		} {
			if got := text(a.Attributes, attribute); got != want {
				t.Errorf("%s of attempt %d is %q, want %q", attribute, i+1, got, want)
			}
		}
		if a.SpanKind != trace.SpanKindClient || a.Parent.SpanID() != call.SpanContext.SpanID() || (a.Status.Code == codes.Error) != (i < 2) {
			t.Errorf("attempt %d: %v, %v, child of %v", i+1, a.SpanKind, a.Status, a.Parent.SpanID())
		}
		if got, want := headers[i].Get("Traceparent"), onceotel.Trace(trace.ContextWithSpanContext(ctx, a.SpanContext)); got != want {
			t.Errorf("attempt %d was sent with %q, want %q", i+1, got, want)
		}
		if headers[i].Get("X-Idempotency-Key") != "" || headers[i].Get("Baggage") != "" {
			t.Errorf("a key travels: %v", headers[i])
		}
		if headers[i].Get("Idempotency-Key") != headers[0].Get("Idempotency-Key") || headers[i].Get("Idempotency-Key") == "" {
			t.Errorf("attempt %d has another key", i+1)
		}
	}
	numbers := tel.numbers()
	for series, want := range map[string]float64{"once.retry.attempts": 2, "once.retry.calls": 1, "once.retry.delay": 2} {
		sum := 0.0
		for name, n := range numbers {
			if strings.HasPrefix(name, series+"{") {
				sum += n
			}
		}
		if sum != want {
			t.Errorf("%s is %v, want %v", series, sum, want)
		}
	}
}

// TestCallThatFails: it is given up, its server is not there, and its caller goes away, which is no failure.
func TestCallThatFails(t *testing.T) {
	t.Parallel()
	tel := newTelemetry(t, onceotel.Config{})
	policy := quick()
	policy.Attempts = 2
	transport := tel.transport(&retryhttp.Transport{Keys: true, Policy: policy})
	s := newServer(t, http.StatusServiceUnavailable, http.StatusServiceUnavailable, http.StatusServiceUnavailable)
	if status := post(t.Context(), t, transport, s.URL); status != http.StatusServiceUnavailable {
		t.Fatal(status)
	}
	call := named(t, tel.take(), "call POST")
	if call.Status.Code != codes.Error || text(call.Attributes, "once.stop") != string(retry.ReasonExhausted) || text(call.Attributes, "http.response.status_code") != "503" {
		t.Errorf("%v, %v", call.Status, call.Attributes)
	}

	if status := post(t.Context(), t, transport, "http://127.0.0.1:0"); status != 0 { // nothing ever listens on port 0
		t.Fatal(status)
	}
	if call = named(t, tel.take(), "call POST"); call.Status.Code != codes.Error || text(call.Attributes, "error.type") == "" {
		t.Errorf("%v, %v", call.Status, call.Attributes)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if status := post(ctx, t, transport, s.URL); status != 0 {
		t.Fatal(status)
	}
	if call = named(t, tel.take(), "call POST"); call.Status.Code == codes.Error || text(call.Attributes, "error.type") == "" {
		t.Errorf("%v, %v", call.Status, call.Attributes)
	}
}

// TestHedgeIsASpan: two attempts at the same time.
func TestHedgeIsASpan(t *testing.T) {
	t.Parallel()
	tel := newTelemetry(t, onceotel.Config{})
	second := make(chan struct{})
	var mu sync.Mutex
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		n++
		first := n == 1
		mu.Unlock()
		if !first {
			close(second)
			return
		}
		select { // the first one waits until it is cancelled
		case <-r.Context().Done():
		case <-t.Context().Done():
		}
	}))
	t.Cleanup(s.Close)
	if status := post(t.Context(), t, tel.transport(&retryhttp.Transport{Keys: true, Hedge: time.Millisecond, Policy: quick()}), s.URL); status != http.StatusOK {
		t.Fatal(status)
	}
	<-second
	spans := tel.take()
	call := named(t, spans, "call POST")
	if got := events(&call); !slices.Equal(got, []string{"once.retry.hedged"}) {
		t.Errorf("events %q", got)
	}
}

// TestDoHasASpanForEachAttempt: of work that is no request.
func TestDoHasASpanForEachAttempt(t *testing.T) {
	t.Parallel()
	tel, policy := newTelemetry(t, onceotel.Config{}), quick()
	must(t, tel.Do(t.Context(), "mail", &policy, func(_ context.Context, attempt int) error {
		if attempt == 1 {
			return errors.New("busy")
		}
		return nil
	}))
	spans := tel.take()
	if len(spans) != 3 || spans[0].Name != "mail" || spans[2].Name != "call mail" || spans[1].Parent.SpanID() != spans[2].SpanContext.SpanID() {
		t.Fatalf("%+v", spans)
	}
	if spans[0].Status.Code != codes.Error || spans[1].Status.Code == codes.Error || spans[2].Status.Code == codes.Error || text(spans[2].Attributes, "once.attempts") != "2" {
		t.Errorf("%v, %v, %v: %v", spans[0].Status, spans[1].Status, spans[2].Status, spans[2].Attributes)
	}
	if err := tel.Do(t.Context(), "mail", nil, func(context.Context, int) error { return retry.Permanent(errors.New("no")) }); err == nil {
		t.Error("no error")
	}
	if call := named(t, tel.take(), "call mail"); call.Status.Code != codes.Error || text(call.Attributes, "once.stop") == "" {
		t.Errorf("%v, %v", call.Status, call.Attributes)
	}
}

// TestKeyTravelsDownstream: only if it is asked for, hashed unless it is asked for, and never in place of a key that a request has.
func TestKeyTravelsDownstream(t *testing.T) {
	t.Parallel()
	raw := func(context.Context, once.Event) string { return "raw key" }
	hash := once.KeyHash(key)
	for name, tt := range map[string]struct {
		cfg                       onceotel.Config
		own                       string // the key that the request has
		header, correlation, bags string
	}{
		"by default":          {},
		"in the baggage":      {cfg: onceotel.Config{Downstream: onceotel.KeyInBaggage}, bags: "once.correlation_id=order%207,once.key=" + hash},
		"in the header":       {cfg: onceotel.Config{Downstream: onceotel.KeyInHeader}, header: hash, correlation: "order 7"},
		"in the header, raw":  {cfg: onceotel.Config{Downstream: onceotel.KeyInHeader, DownstreamKey: raw}, header: "raw key", correlation: "order 7"},
		"a key of its own":    {cfg: onceotel.Config{Downstream: onceotel.KeyInHeader}, own: "Idempotency-Key", correlation: "order 7"},
		"another of its own":  {cfg: onceotel.Config{Downstream: onceotel.KeyInHeader}, own: "X-Idempotency-Key", header: "mine", correlation: "order 7"},
		"in the baggage, raw": {cfg: onceotel.Config{Downstream: onceotel.KeyInBaggage, DownstreamKey: raw}, bags: "once.correlation_id=order%207,once.key=raw%20key"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tel, s := newTelemetry(t, tt.cfg), newServer(t)
			e := once.New(memstore.New(), once.Config{Observer: tel})
			transport := tel.transport(&retryhttp.Transport{Policy: quick()})
			_, err := once.Do(t.Context(), e, refund, func(ctx context.Context, tx tx) (string, error) {
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, nil)
				must(t, err)
				if tt.own != "" {
					req.Header.Set(tt.own, "mine")
				}
				resp, err := transport.RoundTrip(req)
				must(t, err)
				must(t, resp.Body.Close())
				return pay(ctx, tx)
			})
			must(t, err)
			headers := s.got()
			if len(headers) != 1 {
				t.Fatalf("%d requests", len(headers))
			}
			h := headers[0]
			bag := strings.Split(h.Get("Baggage"), ",")
			slices.Sort(bag)
			if h.Get("X-Idempotency-Key") != tt.header || h.Get("X-Correlation-Id") != tt.correlation || strings.Join(bag, ",") != tt.bags {
				t.Errorf("%v", h)
			}
			transport.CloseIdleConnections()
		})
	}
	tel, s := newTelemetry(t, onceotel.Config{Downstream: onceotel.KeyInHeader}), newServer(t)
	post(t.Context(), t, tel.transport(nil), s.URL) // outside of an operation
	if h := s.got()[0]; h.Get("X-Idempotency-Key") != "" || h.Get("Traceparent") == "" {
		t.Errorf("%v", h)
	}
}

// TestMethodsUnknownToTheConventions: one that the conventions do not know is _OTHER in all spans, and kept beside.
func TestMethodsUnknownToTheConventions(t *testing.T) {
	t.Parallel()
	tel, s := newTelemetry(t, onceotel.Config{}), newServer(t)
	for method, want := range map[string][3]string{
		"":         {"GET", "GET", ""},
		"QUERY":    {"QUERY", "QUERY", ""},
		"PROPFIND": {"HTTP", "_OTHER", "PROPFIND"},
		"get":      {"HTTP", "_OTHER", "get"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), method, s.URL, nil)
		must(t, err)
		req.Method = method
		resp, err := tel.transport(nil).RoundTrip(req)
		must(t, err)
		must(t, resp.Body.Close())
		spans := tel.take()
		for _, name := range []string{want[0], "call " + want[0]} {
			span := named(t, spans, name)
			if known, original := text(span.Attributes, "http.request.method"), text(span.Attributes, "http.request.method_original"); known != want[1] || original != want[2] {
				t.Errorf("%q: %s has the method %q, and %q in the original", method, name, known, original)
			}
		}
	}
}

// TestOneThatCountsAndTracesCountsOnce: a Telemetry of this package is the metrics and the tracer.
func TestOneThatCountsAndTracesCountsOnce(t *testing.T) {
	t.Parallel()
	tel := newTelemetry(t, onceotel.Config{})
	both := wiring.Telemetry{Metrics: tel.Telemetry, Tracer: tel.Telemetry, Logger: slog.New(slog.DiscardHandler)}
	_, err := once.Do(t.Context(), once.New(memstore.New(), both.Engine(once.Config{})), refund, pay)
	must(t, err)
	if n := tel.numbers()["once.operations{decision=new_execution,effect=applied,operation="+refund.Name+"}"]; n != 1 {
		t.Errorf("%v operations in %v", n, tel.numbers())
	}
}
