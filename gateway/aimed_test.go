package gateway_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once/gateway"
	"github.com/oncelib/once/oncehttp"
)

// TestEncodedSlash: a path matches a route as it matches one of net/http, where an encoded slash is a letter of its element.
func TestEncodedSlash(t *testing.T) {
	t.Parallel()
	s := newRaw1(t, func(int64) (string, bool) { return ok1, true })
	g := newGateway(t, "http://"+s.addr, func(c *gateway.Config) { c.Routes[0].Pattern = "POST /refunds/{id}" })
	for _, path := range []string{"/refunds/INV%2F2026%2F7", "/refunds/a%2F..%2Fb"} {
		seen := s.seen.Load()
		for range 2 {
			r := httptest.NewRequest(http.MethodPost, path, strings.NewReader("1"))
			r.Header.Set("Idempotency-Key", "k"+path)
			want(t, path, send(g, r).StatusCode, 201)
		}
		want(t, "forwards of "+path, s.seen.Load()-seen, int64(1))
	}
}

// TestDuplicatesOfReceipts: without a store, a duplicate waits as long as its route says. What a
// receipt has is sent without cookies and without what belongs to a connection.
func TestDuplicatesOfReceipts(t *testing.T) {
	t.Parallel()
	m := &memory{}
	started, release := make(chan struct{}, 1), make(chan struct{})
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		started <- struct{}{}
		<-release
		w.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(service.Close)
	g := newGateway(t, service.URL, func(c *gateway.Config) { c.Store, c.Receipts = nil, m })
	first := make(chan int, 1)
	go func() { first <- ask(g, "k", "1").StatusCode }()
	<-started
	want(t, "a duplicate at once", codeOf(t, ask(g, "k", "1")), string(oncehttp.ProblemInFlight))
	close(release)
	want(t, "the first caller", <-first, http.StatusCreated)

	stored := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.put(gateway.Receipt{Operation: r.Header.Get(gateway.OperationHeader), Status: 201, Body: []byte("paid"), Header: http.Header{
			"Set-Cookie": {"s=1"}, "Transfer-Encoding": {"chunked"}, "Connection": {"close"}, "Location": {"/charges/1"},
		}})
		w.WriteHeader(http.StatusInternalServerError)
	}))
	t.Cleanup(stored.Close)
	g = newGateway(t, stored.URL, func(c *gateway.Config) { c.Store, c.Receipts = nil, m })
	for range 2 {
		h := ask(g, "stored", "1").Header
		for _, name := range []string{"Set-Cookie", "Transfer-Encoding", "Connection"} {
			want(t, name+" of a receipt", h.Get(name), "")
		}
		want(t, "Location of a receipt", h.Get("Location"), "/charges/1")
	}
}

// TestGRPCHeadersOnly: an answer of gRPC without a message has its status in the header, and keeps it. gRPC-Web, whose status is in the
// body, counts by the status of HTTP.
func TestGRPCHeadersOnly(t *testing.T) {
	t.Parallel()
	s := newRaw1(t, func(int64) (string, bool) {
		return "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nGrpc-Status: 5\r\nGrpc-Message: no such account\r\nContent-Length: 0\r\n\r\n", true
	})
	g := newGateway(t, "http://"+s.addr, nil)
	for range 2 {
		h := ask(g, "k", "1", "Content-Type", "application/grpc").Header
		want(t, "grpc-status", h.Get("Grpc-Status")+" "+h.Get("Grpc-Message"), "5 no such account")
	}
	web := newRaw1(t, func(int64) (string, bool) {
		return "HTTP/1.1 200 OK\r\nContent-Type: application/grpc-web+proto\r\nContent-Length: 2\r\n\r\nok", true
	})
	g = newGateway(t, "http://"+web.addr, nil)
	for range 2 {
		want(t, "gRPC-Web", bodyOf(t, ask(g, "k", "1", "Content-Type", "application/grpc-web+proto")), "ok")
	}
	want(t, "forwards", s.seen.Load()+web.seen.Load(), int64(2))
}

// TestOneKeyIsForwarded: with forward_same_key the service gets one key, however the client has written it.
func TestOneKeyIsForwarded(t *testing.T) {
	t.Parallel()
	cut := newRaw1(t, func(n int64) (string, bool) {
		if n == 1 {
			return "", false
		}
		return ok1, true
	})
	g := newGateway(t, "http://"+cut.addr, func(c *gateway.Config) {
		c.Routes[0].OnUnknown, c.Routes[0].UpstreamKeepsKeys = gateway.PolicyForwardSameKey, time.Hour
	})
	var keys []string
	for _, key := range []string{`"k"`, "k"} {
		ask(g, key, "1")
		keys = append(keys, cut.header()["Idempotency-Key"]...)
	}
	if !slices.Equal(keys, []string{"k", "k"}) {
		t.Errorf("the service got the keys %q", keys)
	}
}

// TestSwitchedProtocolIsAnUnknownOutcome: a service that switches protocols where an answer is due has an unknown outcome, and holds nothing.
func TestSwitchedProtocolIsAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	s := &raw{}
	listen(t, s, func(conn net.Conn) {
		in := bufio.NewReader(conn)
		if _, err := http.ReadRequest(in); err != nil {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		_, _ = io.Copy(io.Discard, in)
	})
	g := newGateway(t, "http://"+s.addr, nil)
	want(t, "code", codeOf(t, ask(g, "k", "1")), string(oncehttp.ProblemUnknown))
}

// TestHandlersOfEachMethod: what is unknown on a route without a method is asked by the names under which it is stored.
func TestHandlersOfEachMethod(t *testing.T) {
	t.Parallel()
	g := newGateway(t, "http://127.0.0.1:1", func(c *gateway.Config) {
		c.Receipts, c.Routes = &memory{}, []gateway.Route{{Pattern: "/pay", OnUnknown: gateway.PolicyCheck}, {Pattern: "PUT /pay/{id}", OnUnknown: gateway.PolicyCheck}}
	})
	var names []string
	for name := range g.Handlers() {
		names = append(names, name)
	}
	slices.Sort(names)
	if want := []string{"service PATCH /pay", "service POST /pay", "service PUT /pay/{id}"}; !slices.Equal(names, want) {
		t.Errorf("handlers of %q, want %q", names, want)
	}
}
