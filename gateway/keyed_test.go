package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelib/once/gateway"
	"github.com/oncelib/once/oncehttp"
)

// TestPoliciesAfterALostAnswer: what a retry does after an answer was lost.
func TestPoliciesAfterALostAnswer(t *testing.T) {
	t.Parallel()
	const keeps = 3 * time.Second
	for name, c := range map[string]struct {
		route gateway.Route
		first string // code of the first caller
		retry string
	}{
		"stop":                 {gateway.Route{}, unknown, unknown},
		"retry":                {gateway.Route{OnUnknown: gateway.PolicyRetry}, "TRANSIENT.upstream_unavailable", again},
		"forward_same_key":     {gateway.Route{OnUnknown: gateway.PolicyForwardSameKey, UpstreamKeepsKeys: time.Hour}, "TRANSIENT.upstream_unavailable", again},
		"the key is too old":   {gateway.Route{OnUnknown: gateway.PolicyForwardSameKey, UpstreamKeepsKeys: keeps}, unknown, unknown},
		"fail, not yet":        {gateway.Route{OnUnknown: gateway.PolicyFail}, unknown, unknown},
		"fail, after its time": {gateway.Route{OnUnknown: gateway.PolicyFail, FailAfter: time.Nanosecond}, "CONFLICT.idempotency.never_known", replays},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRaw1(t, func(n int64) (string, bool) {
				if n == 1 {
					<-time.After(c.route.UpstreamKeepsKeys % time.Hour) // the answer is lost when the service has forgotten the key
					return "", false
				}
				return ok1, true
			})
			c.route.Pattern = "POST /pay"
			g := newGateway(t, "http://"+s.addr, func(cfg *gateway.Config) { cfg.Routes = []gateway.Route{c.route} })
			want(t, "code", codeOf(t, ask(g, "k", "1")), c.first)
			want(t, "forwards", s.seen.Load(), int64(1))
			operation := s.header().Get(gateway.OperationHeader)
			retry(t, g, s, c.retry)
			want(t, "operation of the retry", s.header().Get(gateway.OperationHeader), operation)
		})
	}
}

// TestAConflictOfARepeatedForwardIsNoOutcome: the service answers 409 to a repeated forward, because it still executes the first one. That is not the outcome.
func TestAConflictOfARepeatedForwardIsNoOutcome(t *testing.T) {
	t.Parallel()
	const conflict = "HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\n"
	same := gateway.Route{OnUnknown: gateway.PolicyForwardSameKey, UpstreamKeepsKeys: time.Hour}
	for name, c := range map[string]struct {
		route  gateway.Route
		header string
		final  int // status of the next retry
	}{
		"the service says nothing more":   {same, "", 201},
		"Stripe":                          {same, "Stripe-Should-Retry: true\r\n", 201},
		"once":                            {same, "Retry-After: 1\r\n", 201},
		"a stored conflict of Stripe":     {same, "Idempotent-Replayed: true\r\n", 409},
		"a stored conflict of once":       {same, "Idempotency-Status: replayed\r\n", 409},
		"a service without keys":          {gateway.Route{OnUnknown: gateway.PolicyRetry}, "", 409},
		"a service without keys, not yet": {gateway.Route{OnUnknown: gateway.PolicyRetry}, "Retry-After: 1\r\n", 201},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRaw1(t, func(n int64) (string, bool) {
				switch n {
				case 1:
					return "", false
				case 2:
					return conflict + c.header + "\r\n", true
				}
				return ok1, true
			})
			c.route.Pattern = "POST /pay"
			g := newGateway(t, "http://"+s.addr, func(cfg *gateway.Config) { cfg.Routes = []gateway.Route{c.route} })
			want(t, "the first caller", codeOf(t, ask(g, "k", "1")), "TRANSIENT.upstream_unavailable")
			status := ask(g, "k", "1").StatusCode
			if c.final == 201 {
				want(t, "while it runs", status, 503)
			}
			for range 2 {
				want(t, "afterwards", ask(g, "k", "1").StatusCode, c.final)
			}
			want(t, "forwards", s.seen.Load(), map[int]int64{201: 3, 409: 2}[c.final])
		})
	}
	s := newRaw1(t, func(int64) (string, bool) { return conflict + "Retry-After: 1\r\n\r\n", true })
	same.Pattern = "POST /pay"
	g := newGateway(t, "http://"+s.addr, func(cfg *gateway.Config) { cfg.Routes = []gateway.Route{same} })
	for range 2 {
		want(t, "a conflict of the first forward", ask(g, "k", "1").StatusCode, 409)
	}
	want(t, "forwards of it", s.seen.Load(), int64(1))
}

// TestStatusURL: a client that is told that the outcome is unknown is told where to see what becomes of it.
func TestStatusURL(t *testing.T) {
	t.Parallel()
	s := newRaw1(t, func(int64) (string, bool) { return "", false })
	g := newGateway(t, "http://"+s.addr, nil)
	body := bodyOf(t, ask(g, "k", "1"))
	_, after, found := strings.Cut(body, `"status_url":"`)
	if !found {
		t.Fatalf("no status_url in %s", body)
	}
	link, _, _ := strings.Cut(after, `"`)
	link = strings.ReplaceAll(link, `\u0026`, "&")
	told := bodyOf(t, send(g, httptest.NewRequest(http.MethodGet, link, http.NoBody)))
	if !strings.Contains(told, `"state":"unknown"`) {
		t.Errorf("%s tells %s", link, told)
	}
	want(t, "requests", s.seen.Load(), int64(1))
}

// TestDuplicatesAreForwardedOnce: of a herd with one key one request is forwarded; another request under the key is refused.
func TestDuplicatesAreForwardedOnce(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}), make(chan struct{})
	s := newRaw1(t, func(int64) (string, bool) {
		close(arrived)
		<-release
		return ok1, true
	})
	g := newGateway(t, "http://"+s.addr, onRoute(func(r *gateway.Route) { r.Wait = time.Minute }))
	var herd sync.WaitGroup
	var paid atomic.Int64
	for range 50 {
		herd.Go(func() {
			if ask(g, "k", "1").StatusCode == http.StatusCreated {
				paid.Add(1)
			}
		})
	}
	<-arrived
	close(release)
	herd.Wait()
	want(t, "answered", paid.Load(), int64(50))
	want(t, "another request", ask(g, "k", "2").StatusCode, 422)
	want(t, "forwards", s.seen.Load(), int64(1))
}

// TestUncleanPathsAreTheSameRoute: a path that the service may clean is no way around the key.
func TestUncleanPathsAreTheSameRoute(t *testing.T) {
	t.Parallel()
	s := newRaw1(t, func(int64) (string, bool) { return ok1, true })
	g := newGateway(t, "http://"+s.addr, nil)
	for _, path := range []string{"/pay", "//pay", "/./pay", "/x/../pay"} {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("1"))
		r.URL = &url.URL{Path: path}
		want(t, path+" without a key", send(g, r).StatusCode, 400)
	}
	for _, path := range []string{
		"/pay;x=1", "/pay;", "/pay%3bx", "/;x/pay", "/x/..;/pay", "/x/..%3b/pay", "/.;a/pay", "/;a%2Fb/pay", // a servlet container cuts parameters, some before they decode
		"/%70ay", "/x/%2e%2e/pay", "/x%2F../pay", "/x%2F..%2Fpay", "/x%2Fy/../pay", "/x%2Fy/%2E%2e/pay", "/%2Fpay", "/pay/.", "/pay/%2e%2e/..", "/%3b%2Fx/pay", // an encoded slash separates, or does not
		`/\pay`, `/x/..\pay`, "/x%5C..%5Cpay", "/x/..;a%5Cpay;b",
	} {
		want(t, path+" without a key", send(g, httptest.NewRequest(http.MethodPost, "http://h"+path, strings.NewReader("1"))).StatusCode, 400)
	}
	want(t, "requests", s.seen.Load(), int64(0))
	for i, path := range []string{"/pay;x=1", "/x/..;/pay", "/pay"} {
		r := httptest.NewRequest(http.MethodPost, "http://h"+path, strings.NewReader("1"))
		r.Header.Set("Idempotency-Key", fmt.Sprint("k", i))
		want(t, path+" with a key", send(g, r).Header.Get("Idempotency-Status"), "stored")
	}
	g = newGateway(t, "http://"+s.addr, func(c *gateway.Config) {
		c.Routes = []gateway.Route{{Pattern: "POST /a/pay"}, {Pattern: "POST /a/{id}", Optional: true}, {Pattern: "POST /b/"}}
	})
	for path, status := range map[string]int{
		"/a/b//../../pay": 400, "/a//x/../pay": 400, "/a/pay;x": 400, "/a/pay": 400, "/b/.": 400, "/b/x/..": 400, // ".." may remove an empty segment
		"/a/x": 201, "/a/x;pay": 201, "/c/pay": 201, "/a%2Fx": 201, "/payment;x=1": 201, "/": 201, "/;": 201, "/..": 201,
	} {
		want(t, path+" without a key", send(g, httptest.NewRequest(http.MethodPost, "http://h"+path, strings.NewReader("1"))).StatusCode, status)
	}
}

// served returns the address of a gateway that listens.
func served(t *testing.T, g http.Handler) string {
	t.Helper()
	front := httptest.NewServer(g)
	t.Cleanup(front.Close)
	return front.URL
}

func post(t *testing.T, base, key string, body io.Reader) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/pay", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", key)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// TestStreamsReachTheFirstCaller: events and answers that are too large to be stored reach the first caller as they come. A retry is refused, and one that was cut
// off does not look whole.
func TestStreamsReachTheFirstCaller(t *testing.T) {
	t.Parallel()
	for _, cut := range []bool{false, true} {
		for name, contentType := range map[string]string{"events": "text/event-stream", "large": "text/plain"} {
			t.Run(fmt.Sprint(name, ", cut: ", cut), func(t *testing.T) {
				t.Parallel()
				var forwards atomic.Int64
				seen := make(chan struct{})
				service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					forwards.Add(1)
					w.Header().Set("Content-Type", contentType)
					_, _ = io.WriteString(w, "first event, not the last one\n")
					_ = http.NewResponseController(w).Flush()
					<-seen // until the client has it
					if cut {
						panic(http.ErrAbortHandler)
					}
					_, _ = io.WriteString(w, "last\n")
				}))
				t.Cleanup(service.Close)
				front := served(t, newGateway(t, service.URL, onRoute(func(r *gateway.Route) { r.MaxStored = 16 })))
				resp := post(t, front, "k", strings.NewReader("1"))
				in := bufio.NewReader(resp.Body)
				line, err := in.ReadString('\n')
				if err != nil || !strings.HasPrefix(line, "first") {
					t.Fatalf("%q %v", line, err)
				}
				close(seen)
				rest, err := io.ReadAll(in)
				if cut == (err == nil) || !cut && string(rest) != "last\n" {
					t.Errorf("the rest is %q, %v", rest, err)
				}
				want(t, "status of the answer", resp.Header.Get("Idempotency-Status"), "omitted")
				want(t, "code of the retry", codeOf(t, post(t, front, "k", strings.NewReader("1"))), omitted)
				want(t, "forwards", forwards.Load(), int64(1))
			})
		}
	}
}

// TestLargeRequests: a body of more than 256 KiB is forwarded as it is, another one under the key is a mismatch, and one above the limit is
// refused.
func TestLargeRequests(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 1<<20)
	s := newRaw1(t, func(int64) (string, bool) { return ok1, true })
	g := newGateway(t, "http://"+s.addr, onRoute(func(r *gateway.Route) { r.MaxRequest = 1 << 20 }))
	want(t, "status", ask(g, "k", large).StatusCode, 201)
	want(t, "body", string(s.body) == large, true)
	want(t, "another body", ask(g, "k", large[1:]+"y").StatusCode, 422)
	want(t, "too large", ask(g, "k2", large+"x").StatusCode, 413)
	want(t, "requests", s.seen.Load(), int64(1))
}

// TestAnswerIsReplayed: status, headers, trailers and body come again, without cookies, and without what the service has said to the gateway.
func TestAnswerIsReplayed(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Trailer", "X-Sum")
		h.Set("Set-Cookie", "a=1")
		h.Set("Location", "/pay/7")
		h.Set("Once-Outcome", "executed")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "paid")
		h.Set("X-Sum", "42")
	}))
	t.Cleanup(service.Close)
	front := served(t, newGateway(t, service.URL, nil))
	for i, status := range []string{"stored", "replayed"} {
		resp := post(t, front, "k", strings.NewReader("1"))
		want(t, "body", bodyOf(t, resp), "paid")
		want(t, "status", resp.StatusCode, 201)
		want(t, "said", resp.Header.Get("Idempotency-Status"), status)
		want(t, "trailer", resp.Trailer.Get("X-Sum"), "42")
		want(t, "Location", resp.Header.Get("Location"), "/pay/7")
		want(t, "cookies", len(resp.Header["Set-Cookie"]), 1-i)
		want(t, "outcome", resp.Header.Get("Once-Outcome"), "")
	}
}

// TestGRPCStatusDecides: the grpc-status decides, not the status of HTTP.
func TestGRPCStatusDecides(t *testing.T) {
	t.Parallel()
	for status, expect := range map[string]string{"0": replays, "5": replays, "13": replays, "14": unknown, "4": unknown, "": unknown, "16": again, "8": unknown} {
		t.Run("status "+status, func(t *testing.T) {
			t.Parallel()
			s := newRaw1(t, func(n int64) (string, bool) {
				said := "Grpc-Status: " + status + "\r\n"
				if n > 1 {
					said = "Grpc-Status: 0\r\n"
				} else if status == "" {
					said = ""
				}
				return "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\nTrailer: Grpc-Status\r\n\r\n4\r\npaid\r\n0\r\n" + said + "\r\n", true
			})
			g := newGateway(t, "http://"+s.addr, nil)
			first := ask(g, "k", "1", "Content-Type", "application/grpc")
			want(t, "status", first.StatusCode, 200)
			before := s.seen.Load()
			resp := ask(g, "k", "1", "Content-Type", "application/grpc")
			forwarded := s.seen.Load() - before
			switch expect {
			case replays:
				want(t, "replayed", resp.Header.Get("Idempotent-Replayed"), "true")
				want(t, "trailer", resp.Trailer.Get("Grpc-Status"), status)
				want(t, "forwards", forwarded, int64(0))
			case again:
				want(t, "forwards", forwarded, int64(1))
			case unknown:
				want(t, "problem as a status of gRPC", resp.Header.Get("Grpc-Status"), "9")
				want(t, "forwards", forwarded, int64(0))
			}
		})
	}
}

// TestFinalUnknownOfGRPC: the final answer of fail is a status of gRPC for a client of gRPC, at once and replayed.
func TestFinalUnknownOfGRPC(t *testing.T) {
	t.Parallel()
	s := newRaw1(t, func(int64) (string, bool) { return "", false })
	g := newGateway(t, "http://"+s.addr, onRoute(func(r *gateway.Route) { r.OnUnknown, r.FailAfter = gateway.PolicyFail, time.Nanosecond }))
	for range 2 {
		resp := ask(g, "k", "1", "Content-Type", "application/grpc")
		want(t, "status", resp.StatusCode, http.StatusOK)
		want(t, "content type", resp.Header.Get("Content-Type"), "application/grpc")
		want(t, "grpc-status", resp.Header.Get("Grpc-Status"), "9")
		want(t, "grpc-message", strings.HasPrefix(resp.Header.Get("Grpc-Message"), "CONFLICT.idempotency.never_known"), true)
		want(t, "status of the key", resp.Header.Get("Idempotency-Status"), "replayed")
		want(t, "body", bodyOf(t, resp), "")
	}
	want(t, "forwards", s.seen.Load(), int64(1))
}

// TestIdleConnections: the gateway closes its connections before the service does. The control keeps them longer than the service, which closes one
// that a request was just written to: unknown for nothing.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	if gateway.DefaultIdle >= 2*time.Second {
		t.Errorf("connections are kept for %v: gunicorn closes its own after 2 s", gateway.DefaultIdle)
	}
	for _, control := range []bool{false, true} {
		closed := make(chan struct{}, 100)
		s := &raw{}
		listen(t, s, func(conn net.Conn) { // it answers one request, and closes the connection when the second one has come
			in := bufio.NewReader(conn)
			for n := range 2 {
				r, err := http.ReadRequest(in)
				if err != nil {
					closed <- struct{}{}
					return
				}
				_, _ = io.Copy(io.Discard, r.Body)
				if s.seen.Add(1); n == 0 {
					_, _ = io.WriteString(conn, ok1)
				}
			}
		})
		g := newGateway(t, "http://"+s.addr, func(c *gateway.Config) {
			if c.Idle = time.Millisecond; control {
				c.Idle = time.Hour
			}
		})
		lost := 0
		for n := range 20 {
			if ask(g, fmt.Sprint("k", n), "1").StatusCode != http.StatusCreated {
				lost++
			} else if !control {
				select {
				case <-closed: // by the gateway
				case <-time.After(20 * time.Second):
					t.Fatal("the gateway keeps a connection that is not in use")
				}
			}
		}
		if (lost > 0) != control { // on a slow machine net/http keeps some connections for no other request, so that the control loses fewer than 10
			t.Errorf("unknown for nothing: %d, control: %v", lost, control)
		}
	}
}

// TestWithoutKey: what has no key, and what is no listed route, passes as it is; so do other protocols.
func TestWithoutKey(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			_, _ = io.Copy(w, r.Body)
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		line, _ := rw.ReadString('\n')
		_, _ = io.WriteString(conn, "echo "+line)
	}))
	t.Cleanup(service.Close)
	front := served(t, newGateway(t, service.URL, onRoute(func(r *gateway.Route) { r.Optional = true })))
	resp, err := http.Post(front+"/pay", "text/plain", strings.NewReader("as it is"))
	if err != nil {
		t.Fatal(err)
	}
	want(t, "status", resp.Header.Get("Idempotency-Status"), "")
	want(t, "body", bodyOf(t, resp), "as it is")
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(front, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET /socket HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	in := bufio.NewReader(conn)
	upgraded, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "status", upgraded.StatusCode, 101)
	_, _ = io.WriteString(conn, "hello\n")
	line, _ := in.ReadString('\n')
	want(t, "echo", line, "echo hello\n")
}

// TestExpectIsRefusedBeforeTheBody: a request that is refused is refused before its body is sent.
func TestExpectIsRefusedBeforeTheBody(t *testing.T) {
	t.Parallel()
	s := newRaw1(t, func(int64) (string, bool) { return ok1, true })
	front := served(t, newGateway(t, "http://"+s.addr, nil))
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(front, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "POST /pay HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	want(t, "status", resp.StatusCode, 400)
}

// memory is receipts in memory: what a service would have committed.
type memory struct {
	mu    sync.Mutex
	all   map[string]gateway.Receipt
	looks atomic.Int64
}

func (m *memory) put(r gateway.Receipt) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = map[string]gateway.Receipt{}
	}
	m.all[r.Operation] = r
}

func (m *memory) Look(_ context.Context, operation string) (gateway.Receipt, bool, error) {
	m.looks.Add(1)
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.all[operation]
	return r, ok, nil
}

func (m *memory) Settle(ctx context.Context, operation string) (gateway.Receipt, error) {
	r, found, _ := m.Look(ctx, operation)
	if !found {
		r = gateway.Receipt{Operation: operation, Tombstone: true}
		m.put(r)
	}
	return r, nil
}

// TestReceiptsAlone: without a store the receipt is the record. Another request under the key is a mismatch, duplicates are one forward,
// and an id with a tombstone is not used.
func TestReceiptsAlone(t *testing.T) {
	t.Parallel()
	m := &memory{}
	started, release := make(chan struct{}, 1), make(chan struct{})
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Herd") != "" {
			started <- struct{}{}
			<-release
		}
		operation := r.Header.Get(gateway.OperationHeader)
		if _, found, _ := m.Look(r.Context(), operation); found { // a unique violation
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		m.put(gateway.Receipt{Operation: operation, Fingerprint: r.Header.Get(gateway.FingerprintHeader), Status: 201, Body: []byte(`{"paid":1}`)})
		w.WriteHeader(http.StatusInternalServerError) // it has failed after its commit
	}))
	t.Cleanup(service.Close)
	g := newGateway(t, service.URL, func(c *gateway.Config) { c.Store, c.Receipts, c.Routes[0].Wait = nil, m, time.Minute })
	resp := ask(g, "k", "1")
	want(t, "status", resp.StatusCode, 201)
	want(t, "content type", resp.Header.Get("Content-Type"), "application/json")
	want(t, "another request", codeOf(t, ask(g, "k", "2")), string(oncehttp.ProblemMismatch))
	for operation := range m.all {
		m.put(gateway.Receipt{Operation: operation, Tombstone: true})
	}
	want(t, "after a tombstone", ask(g, "k", "1").StatusCode, 201)
	want(t, "receipts", len(m.all), 2)
	var herd sync.WaitGroup
	var paid atomic.Int64
	herd.Go(func() {
		if ask(g, "herd", "1", "X-Herd", "1").StatusCode == http.StatusCreated {
			paid.Add(1)
		}
	})
	<-started
	want(t, "another request in flight", codeOf(t, ask(g, "herd", "2")), string(oncehttp.ProblemMismatch))
	for range 20 {
		herd.Go(func() {
			if ask(g, "herd", "1", "X-Herd", "1").StatusCode == http.StatusCreated {
				paid.Add(1)
			}
		})
	}
	close(release)
	herd.Wait()
	want(t, "answered", paid.Load(), int64(21))
	want(t, "receipts", len(m.all), 3)
}

// TestReceiptIsBelieved: with check, the receipt goes before what the service answers, and its tombstone before a second forward.
func TestReceiptIsBelieved(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		commits bool
		answer  string
		status  int
		seen    int64
	}{
		"500 after the commit":              {true, status1(500, ""), 201, 1},
		"409 of its own receipt":            {true, status1(409, ""), 201, 1},
		"503 after the commit":              {true, status1(503, ""), 201, 1},
		"cut after the commit":              {true, ok1[:len(ok1)-1], 201, 1},
		"close-delimited after the commit":  {true, "HTTP/1.1 201 Created\r\n\r\npai", 201, 1},
		"nothing after the commit":          {true, "", 201, 1},
		"500 and no commit":                 {false, status1(500, ""), 500, 1},
		"nothing and no commit: once again": {false, "", 201, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &memory{}
			var s *raw
			s = newRaw1(t, func(n int64) (string, bool) {
				if n > 2 {
					return ok1, false
				}
				if c.commits || n == 1 {
					m.put(gateway.Receipt{Operation: s.last.Header.Get(gateway.OperationHeader), Status: 201, Body: []byte("paid")})
				}
				if n == 1 {
					return ok1, false
				}
				return c.answer, false
			})
			g := newGateway(t, "http://"+s.addr, func(cfg *gateway.Config) {
				cfg.Receipts, cfg.Routes[0].OnUnknown = m, gateway.PolicyCheck
			})
			warm(t, g, "/pay")
			resp := ask(g, "k", "1")
			want(t, "status", resp.StatusCode, c.status)
			want(t, "requests", s.seen.Load()-1, c.seen)
			if c.status == http.StatusCreated {
				want(t, "body", bodyOf(t, resp), "paid")
				retry(t, g, s, replays)
			} else { // nothing was done, and the retry is another operation
				before := s.header().Get(gateway.OperationHeader)
				retry(t, g, s, again)
				want(t, "the same operation", s.header().Get(gateway.OperationHeader) == before, false)
			}
		})
	}
}
