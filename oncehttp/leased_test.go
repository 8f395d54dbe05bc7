package oncehttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// tenant is the principal of a test: who sends the header.
func tenant(r *http.Request) string { return r.Header.Get("Tenant") }

// leasedConfig is that of a route of work under leases.
func leasedConfig(wait time.Duration) oncehttp.Config {
	return oncehttp.Config{
		Principal: tenant, Wait: wait,
		StatusURL: func(_ *http.Request, key string) string { return "/refunds/status/" + url.PathEscape(key) },
	}
}

// leasedNode serves a route of work under leases, and the states of its operations, in front of a store that nodes share.
func leasedNode(t *testing.T, s store.Operations, wait time.Duration, h func(w http.ResponseWriter, r *http.Request, run *lease.Run)) *service {
	t.Helper()
	e := once.New(lease.New(s, lease.Config{TTL: time.Minute}), once.Config{Observer: once.Discard})
	cfg := leasedConfig(wait)
	mux := http.NewServeMux()
	mux.Handle("POST /refunds", oncehttp.Handler(e, cfg, h))
	mux.Handle("/refunds/status/{key}", oncehttp.StatusHandler(e, cfg, func(r *http.Request) (route, key string) { return "POST /refunds", r.PathValue("key") }))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return &service{t: t, url: server.URL}
}

func (s *service) refund(key, body string, header ...string) response {
	s.t.Helper()
	return s.post(key, body, append([]string{"Tenant", "acme"}, header...)...)
}

// state asks for the state of an operation.
func (s *service) state(key string, want int) (r response, state string, result map[string]any) {
	s.t.Helper()
	r = s.send("GET", "/refunds/status/"+url.PathEscape(key), "", "Tenant", "acme")
	var got struct {
		State  string
		Since  time.Time
		Result map[string]any
	}
	if err := json.Unmarshal([]byte(r.body), &got); err != nil || r.status != want || want == http.StatusOK && time.Since(got.Since).Abs() > time.Hour {
		s.t.Errorf("%s: %d %s, %v", key, r.status, r.body, err)
	}
	return r, got.State, got.Result
}

// A client that hangs up does not end work under a lease, which goes on with the request and the answer as they are: its retry
// gets the answer. The buffers of requests that are over are used by others meanwhile.
func TestLeasedClientHangsUp(t *testing.T) {
	begun, hungUp, end := make(chan struct{}), make(chan struct{}), make(chan struct{})
	const large = 40_000
	var calls int
	handle := func(w http.ResponseWriter, r *http.Request, run *lease.Run) {
		if r.Header.Get("Other") != "" {
			return
		}
		w.Header().Set("Location", "/refunds/1")
		_, err := lease.Call(r.Context(), run, "charge", func(ctx context.Context, _ string) (string, error) {
			calls++
			close(begun)
			<-end
			return "", ctx.Err() // of the handler: its client has gone
		}, lease.CallPolicy{})
		if err != nil {
			oncehttp.Fail(w, r, err)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			oncehttp.Fail(w, r, err)
			return
		}
		w.Header().Set("Content-Location", r.Header.Get("X-Asked"))
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(body)
	}
	e := once.New(lease.New(memstore.New(), lease.Config{TTL: time.Minute}), once.Config{Observer: once.Discard})
	protected, impatient := oncehttp.Handler(e, leasedConfig(time.Minute), handle), oncehttp.Handler(e, leasedConfig(0), handle)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Hangs-Up") != "" {
			context.AfterFunc(r.Context(), func() { close(hungUp) })
		}
		w.Header().Set("Outer", "1")
		if r.Header.Get("Impatient") != "" {
			impatient.ServeHTTP(w, r)
			return
		}
		protected.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s := &service{t: t, url: server.URL}
	body := strings.Repeat("a", large)

	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/refunds", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Tenant": {"acme"}, "Idempotency-Key": {"k"}, "Hangs-Up": {"1"}, "X-Asked": {"first"}}
	var first sync.WaitGroup
	first.Go(func() {
		if resp, err := client.Do(r); err == nil {
			_ = resp.Body.Close()
			t.Error("the first client has got an answer")
		}
	})
	<-begun
	hangUp()
	first.Wait()
	<-hungUp
	for i := range 8 {
		s.refund("other"+strconv.Itoa(i), strings.Repeat("b", large), "Other", "1", "X-Asked", "other")
	}
	var retry response
	var second sync.WaitGroup
	second.Go(func() { retry = s.refund("k", body, "X-Asked", "second") })
	if got := s.refund("k", "other bytes", "Impatient", "1"); got.status != http.StatusUnprocessableEntity {
		t.Errorf("other bytes: %d %s", got.status, got.body)
	}
	close(end)
	second.Wait()
	if retry.status != http.StatusCreated || retry.body != body || retry.header.Get("Location") != "/refunds/1" || retry.header.Get("Content-Location") != "first" || calls != 1 {
		t.Errorf("%d, %d bytes, %v, after %d calls", retry.status, len(retry.body), retry.header, calls)
	}
}

// The same key attaches to work that is under way, on this node and on others, or is told where its state is.
func TestLeasedWorkIsUnderWay(t *testing.T) {
	mem := memstore.New()
	begun, end := make(chan struct{}), make(chan struct{})
	handle := func(w http.ResponseWriter, r *http.Request, run *lease.Run) {
		v, err := lease.Call(r.Context(), run, "charge", func(context.Context, string) (string, error) {
			close(begun) // a second time is a panic
			<-end
			return `{"id":7}`, nil
		}, lease.CallPolicy{})
		if err != nil {
			oncehttp.Fail(w, r, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, v)
	}
	refuses, waits, refusesToo := leasedNode(t, mem, 0, handle), leasedNode(t, mem, time.Minute, handle), leasedNode(t, mem, 0, handle)
	var all sync.WaitGroup
	for range 2 { // the second one attaches
		all.Go(func() {
			if got := waits.refund("k", "x"); got.status != http.StatusCreated || got.body != `{"id":7}` {
				t.Errorf("%d %s", got.status, got.body)
			}
		})
	}
	<-begun
	for i, node := range []*service{refuses, refusesToo} {
		got := node.refund("k", "x", "Once-Attempt", strconv.Itoa(i+1))
		if p := got.problem(t); p.Code != oncehttp.ProblemInFlight || !p.Retryable || p.SafeNewKey || p.StatusURL != "/refunds/status/k" || got.header.Get("Retry-After") == "" {
			t.Errorf("%+v, %v", p, got.header)
		}
		r, state, result := node.state("k", http.StatusOK)
		if state != "running" || result != nil || r.header.Get("Retry-After") == "" || r.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%+v", r)
		}
	}
	close(end)
	all.Wait()
	for _, node := range []*service{refuses, waits} {
		r, state, result := node.state("k", http.StatusOK)
		body, _ := result["body"].(map[string]any)
		if state != "done" || result["status"] != 201.0 || body["id"] != 7.0 || r.header.Get("Retry-After") != "" {
			t.Errorf("%s", r.body)
		}
	}
}

// Work whose outcome is unknown is reported as unknown, and where its state is.
func TestLeasedOutcomeIsUnknown(t *testing.T) {
	mem := memstore.New()
	lost := errors.New("no answer")
	handle := func(w http.ResponseWriter, r *http.Request, run *lease.Run) {
		_, err := lease.Call(r.Context(), run, "charge", func(context.Context, string) (string, error) { return "", lost }, lease.CallPolicy{})
		oncehttp.Fail(w, r, err)
	}
	one, other := leasedNode(t, mem, 0, handle), leasedNode(t, mem, 0, handle)
	for _, node := range []*service{one, one, other} {
		got := node.refund("a key", "x")
		if p := got.problem(t); got.status != http.StatusConflict || p.Code != oncehttp.ProblemUnknown || p.Retryable || p.SafeNewKey || p.StatusURL != "/refunds/status/a%20key" {
			t.Errorf("%d %s", got.status, got.body)
		}
		if _, state, result := node.state("a key", http.StatusOK); state != "unknown" || result != nil {
			t.Errorf("%s", state)
		}
	}
}

// Of work that has stopped behind a phase, the client is not told that nothing was applied.
func TestLeasedWorkHasStopped(t *testing.T) {
	mem := memstore.New()
	var fails func(w http.ResponseWriter, r *http.Request)
	s := leasedNode(t, mem, 0, func(w http.ResponseWriter, r *http.Request, run *lease.Run) {
		_, err := lease.InTx(r.Context(), run, mem, "reserve", func(_ context.Context, tx *memstore.Tx) (int, error) { return increment(tx, "n"), nil })
		if err != nil {
			oncehttp.Fail(w, r, err)
			return
		}
		fails(w, r)
	})
	for name, tt := range map[string]struct {
		fails      func(w http.ResponseWriter, r *http.Request)
		status     int
		retryable  bool
		saysStatus bool
	}{
		"an error":   {func(w http.ResponseWriter, r *http.Request) { oncehttp.Fail(w, r, errors.New("no")) }, 500, true, true},
		"a deadline": {func(w http.ResponseWriter, r *http.Request) { oncehttp.Fail(w, r, context.DeadlineExceeded) }, 503, true, true},
		"too much": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, 8<<20+1))
		}, 500, false, true},
		"a 503 of its": {func(w http.ResponseWriter, _ *http.Request) {
			oncehttp.WriteProblem(w, oncehttp.Problem{Status: 503, Retryable: true})
		}, 503, true, false},
	} {
		fails = tt.fails
		got := s.refund(name, "x")
		p := got.problem(t)
		if got.status != tt.status || p.Retryable != tt.retryable || p.SafeNewKey || strings.Contains(p.Detail, "Nothing was applied") || (p.StatusURL != "") != tt.saysStatus || got.idempotency() != "" {
			t.Errorf("%s: %d %q %s", name, got.status, got.idempotency(), got.body)
		}
		fails = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }
		if got := s.refund(name, "x"); got.status != http.StatusCreated {
			t.Errorf("%s, then %d %s", name, got.status, got.body)
		}
	}
	if n, _ := mem.Get("n"); n != "4" {
		t.Errorf("%s phases were applied", n)
	}
}

// A state belongs to a tenant, and is told as far as it is known.
func TestStatusBelongsToATenant(t *testing.T) {
	s := start(t, setup{Config: leasedConfig(0)}, create) // which records nothing but what is done
	engine := once.New[*memstore.Tx](s.store, once.Config{Observer: once.Discard, HashKeys: false})
	cfg := leasedConfig(0)
	cfg.Route = func(*http.Request) string { return "POST /refunds" }
	cfg.MaxStored = 1000
	answer := func(w http.ResponseWriter, r *http.Request, _ *memstore.Tx) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", r.Header.Get("Wants"))
		w.Header().Set("Set-Cookie", "secret")
		_, _ = w.Write(body)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /refunds", oncehttp.Handler(engine, cfg, answer))
	mux.Handle("/refunds/status/{key}", oncehttp.StatusHandler(engine, cfg, func(r *http.Request) (route, key string) { return "POST /refunds", r.PathValue("key") }))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.url = server.URL

	for key, tt := range map[string]struct{ wants, body, member, value string }{
		"json":    {"application/problem+json; charset=utf-8", `{"a":1}`, "body", "map[a:1]"},
		"no json": {"application/json", `{"a":`, "text", `{"a":`},
		"text":    {"text/plain", `12`, "text", "12"},
		"binary":  {"application/octet-stream", "\xff\x00", "base64", "/wA="},
		"empty":   {"text/plain", "", "body", ""},
		"large":   {"text/plain", strings.Repeat("x", 2000), "text", ""},
	} {
		if got := s.refund(key, tt.body, "Wants", tt.wants); got.status != http.StatusOK {
			t.Fatalf("%d %s", got.status, got.body)
		}
		r, state, result := s.state(key, http.StatusOK)
		value := ""
		switch v := result[tt.member].(type) {
		case string:
			value = v
		case map[string]any:
			value = "map[a:" + strconv.Itoa(int(v["a"].(float64))) + "]"
		}
		if state != "done" || value != tt.value || strings.Contains(r.body, "secret") || (result == nil) != (key == "large") {
			t.Errorf("%s: %s", key, r.body)
		}
		if headers, _ := result["headers"].(map[string]any); result != nil && (headers["Content-Type"] == nil || result["status"] != 200.0) {
			t.Errorf("%s: %s", key, r.body)
		}
	}
	for name, tt := range map[string]struct {
		method, path, tenant string
		status               int
		code                 oncehttp.ProblemCode
	}{
		"another tenant":     {"GET", "json", "globex", 404, problemNotFound},
		"another key":        {"GET", "nobody", "acme", 404, problemNotFound},
		"a key that is none": {"GET", "%00", "acme", 404, problemNotFound},
		"nobody":             {"GET", "json", "", 401, oncehttp.ProblemUnauthenticated},
		"a write":            {"POST", "json", "acme", 405, ""},
	} {
		got := s.send(tt.method, "/refunds/status/"+tt.path, "", "Tenant", tt.tenant)
		if p := got.problem(t); got.status != tt.status || p.Code != tt.code || p.SafeNewKey {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	if got := s.send("HEAD", "/refunds/status/json", "", "Tenant", "acme"); got.status != http.StatusOK || got.body != "" {
		t.Errorf("HEAD: %+v", got)
	}
	s.store.down = true
	got := s.send("GET", "/refunds/status/json", "", "Tenant", "acme")
	if p := got.problem(t); got.status != http.StatusServiceUnavailable || !p.Retryable || got.header.Get("Retry-After") == "" || strings.Contains(got.body, "secret") {
		t.Errorf("the store is down: %+v", got)
	}
}

// Work under a lease has a key. Its requests are stored only by an engine with an Encrypter.
func TestLeasedWorkIsNotOptional(t *testing.T) {
	for field, cfg := range map[string]oncehttp.Config{"Optional": {Optional: true}, "Undoes": {Undoes: "POST /refunds"}, "CaptureRequest": {CaptureRequest: true}} {
		func() {
			defer func() {
				if p, _ := recover().(string); !strings.Contains(p, "Config."+field) || !strings.Contains(p, "Try: ") {
					t.Errorf("%q", p)
				}
			}()
			cfg.Principal = oncehttp.SharedPrincipal()
			oncehttp.Middleware(once.New(lease.New(memstore.New(), lease.Config{}), once.Config{}), cfg)
		}()
	}
}
