package retryhttp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"slices"
	"strings"
	"testing"

	"github.com/oncelib/once/retry"
)

// gotConn tells the trace of r about its connection, as net/http does.
func gotConn(r *http.Request, info httptrace.GotConnInfo) *httptrace.ClientTrace {
	trace := httptrace.ContextClientTrace(r.Context())
	trace.GotConn(info)
	return trace
}

// stub is a base that counts, and whose idle connections can be closed.
type stub struct {
	baseFunc

	sent, closed int
}

func (s *stub) RoundTrip(r *http.Request) (*http.Response, error) {
	s.sent++
	return s.baseFunc(r)
}

func (s *stub) CloseIdleConnections() { s.closed++ }

type toldBreaker struct{ said []retry.Health }

func (b *toldBreaker) Allow() (func(retry.Health), error) {
	return func(o retry.Health) { b.said = append(b.said, o) }, nil
}

func sendKeyed(ctx context.Context, t *Transport, key string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://service.example/", strings.NewReader("body"))
	if err != nil {
		return nil, err
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	return t.RoundTrip(r)
}

func fine(r *http.Request) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}
}

// A kept-alive connection that was dead costs neither an attempt nor a part of the budget,
// and tells a breaker nothing. Each request is counted.
func TestStaleConnectionIsNoAttempt(t *testing.T) {
	const dead = 30
	base := new(stub)
	resends := 0
	base.baseFunc = func(r *http.Request) (*http.Response, error) {
		resends = ResendCount(r.Context())
		if base.sent <= dead {
			gotConn(r, httptrace.GotConnInfo{Reused: true, WasIdle: true})
			return nil, &net.OpError{Op: "read", Err: errors.New("connection reset by peer")}
		}
		return fine(r), nil
	}
	var waits, resent int
	budget, breaker := &retry.Budget{}, new(toldBreaker)
	rt := &Transport{Base: base, Policy: retry.Policy{Attempts: -1, Budget: budget, Breaker: breaker, Observe: func(_ context.Context, e retry.Event) {
		if e.Type == retry.EventResent {
			resent++
		}
		waits += int(e.Wait)
	}}}
	resp, err := sendKeyed(t.Context(), rt, "k")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(err)
	}
	if base.sent != dead+1 || resent != dead || waits != 0 || budget.State().Left != 10 || resends != dead {
		t.Errorf("sent %d, events of %d, waited %d, %+v", base.sent, resent, waits, budget.State())
	}
	want := append(slices.Repeat([]retry.Health{retry.HealthUnknown}, dead), retry.HealthGood)
	if !slices.Equal(breaker.said, want) {
		t.Errorf("the breaker was told %v", breaker.said)
	}
}

// One call meets 100 dead connections at most; from then on they are failures. After 8 of
// them the others are given up, so that the next one is new, if Base can do that.
func TestStaleConnectionsAreBounded(t *testing.T) {
	base := new(stub)
	base.baseFunc = func(r *http.Request) (*http.Response, error) {
		gotConn(r, httptrace.GotConnInfo{Reused: true, WasIdle: true})
		return nil, io.EOF
	}
	budget := &retry.Budget{}
	_, err := sendKeyed(t.Context(), &Transport{Base: base, Policy: retry.Policy{Base: -1, Budget: budget}}, "k")
	var e *retry.Error
	if !errors.As(err, &e) || e.Reason != retry.ReasonExhausted || base.sent != 100+5 || base.closed != 1 || budget.State().Left != 6 {
		t.Errorf("%v; sent %d, closed %d times, %+v", err, base.sent, base.closed, budget.State())
	}
}

// What is not the silent death of a kept-alive connection is an attempt.
func TestWhatIsNotStale(t *testing.T) {
	eof := func(*http.Request) error { return io.EOF }
	for _, c := range []struct {
		name string
		info httptrace.GotConnInfo
		key  string
		err  func(*http.Request) error
		sent int
	}{
		{"stale", httptrace.GotConnInfo{Reused: true}, "k", eof, 102},
		{"a new connection", httptrace.GotConnInfo{}, "k", eof, 2},
		{"dead when it was chosen", httptrace.GotConnInfo{}, "k", func(*http.Request) error {
			return errors.New("net/http: cannot rewind body after connection loss")
		}, 102},
		{"without a key", httptrace.GotConnInfo{Reused: true}, "", eof, 1},
		{"a byte of an answer", httptrace.GotConnInfo{Reused: true}, "k", func(r *http.Request) error {
			httptrace.ContextClientTrace(r.Context()).GotFirstResponseByte()
			return io.EOF
		}, 2},
		{"a timeout", httptrace.GotConnInfo{Reused: true}, "k", func(*http.Request) error {
			return &net.OpError{Op: "read", Err: slow("late")}
		}, 2},
		{"a mistake of the body", httptrace.GotConnInfo{Reused: true}, "k", func(*http.Request) error { return errors.New("the disk is gone") }, 2},
		{"an alert of TLS", httptrace.GotConnInfo{Reused: true}, "k", func(*http.Request) error {
			return &net.OpError{Op: "remote error", Err: errors.New("tls: internal error")}
		}, 2},
	} {
		base := new(stub)
		base.baseFunc = func(r *http.Request) (*http.Response, error) {
			gotConn(r, c.info)
			return nil, c.err(r)
		}
		rt := &Transport{Base: base, Policy: retry.Policy{Base: -1, Attempts: 2, Budget: &retry.Budget{}}}
		if resp, err := sendKeyed(t.Context(), rt, c.key); err == nil || base.sent != c.sent {
			t.Errorf("%s: sent %d, want %d; %v, %v", c.name, base.sent, c.sent, resp, err)
		}
	}
}

// Only one layer sends again.
func TestStaleBelowAnotherTransport(t *testing.T) {
	base := new(stub)
	base.baseFunc = func(r *http.Request) (*http.Response, error) {
		gotConn(r, httptrace.GotConnInfo{Reused: true, WasIdle: true})
		return nil, io.EOF
	}
	inner := &Transport{Base: base, Policy: retry.Policy{Base: -1, Budget: &retry.Budget{}}}
	_, err := sendKeyed(t.Context(), &Transport{Base: inner, Policy: retry.Policy{Attempts: -1, Budget: &retry.Budget{}}}, "k")
	if err == nil || base.sent != 101 {
		t.Errorf("sent %d: %v", base.sent, err)
	}
}

// A connection of HTTP/2 that dies under many requests may never have answered any. So
// those who did not find it idle pay a tenth, and once.
func TestSharedConnectionsAreNotFree(t *testing.T) {
	budget := &retry.Budget{}
	c := &call{t: &Transport{}, policy: retry.Policy{Budget: budget}}
	a := &answer{stale: true, sending: new(sending)}
	a.sending.watch.http2.Store(true)
	if !c.free(a) || c.free(a) || budget.State().Left != 9.9 {
		t.Errorf("shared: %+v", budget.State())
	}
	a.sending.watch.idle.Store(true)
	for range 2 {
		if !c.free(a) || budget.State().Left != 9.9 {
			t.Errorf("idle: %+v", budget.State())
		}
	}
	for range 1000 {
		budget.Spend(retry.ClassUnseen)
	}
	a.sending.watch.idle.Store(false)
	if (&call{t: &Transport{}, policy: retry.Policy{Budget: budget}}).free(a) {
		t.Error("an empty budget pays for it")
	}
}

// The caller's own trace is told as well.
func TestTraceOfTheCaller(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	var conns, bytes, dials int
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		GotConn:              func(httptrace.GotConnInfo) { conns++ },
		GotFirstResponseByte: func() { bytes++ },
		ConnectStart:         func(string, string) { dials++ },
	})
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	var on *sending
	rt := &Transport{Base: baseFunc(func(r *http.Request) (*http.Response, error) {
		on, _ = r.Context().Value(keyOfSending{}).(*sending)
		return base.RoundTrip(r)
	})}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := rt.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if conns != 1 || bytes != 1 || dials != 1 || on.watch.conns.Load() != 1 || !on.watch.answered.Load() {
		t.Errorf("told of %d connections, %d first bytes, %d dials; ours of %d, %v", conns, bytes, dials, on.watch.conns.Load(), on.watch.answered.Load())
	}
}

// A connection that was dead before net/http had written the header has carried nothing: the request is sent
// again, also if it must not be sent twice. Once the header was written, it is unknown.
func TestDeadBeforeTheHeader(t *testing.T) {
	for wrote, want := range map[bool]int{false: 2, true: 1} {
		sent, netHTTP := 0, new(http.Transport)
		netHTTP.RegisterProtocol("raw", baseFunc(func(r *http.Request) (*http.Response, error) {
			if sent++; sent > 1 {
				return fine(r), nil
			}
			trace := httptrace.ContextClientTrace(r.Context())
			trace.GetConn("")
			gotConn(r, httptrace.GotConnInfo{Reused: true, WasIdle: true})
			if wrote {
				trace.WroteHeaders()
			}
			return nil, io.EOF
		}))
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "raw://service.example/", strings.NewReader("body"))
		r.Header.Set("Idempotency-Key", "k")
		rt := &Transport{Base: netHTTP, AtMostOnce: true, Policy: retry.Policy{Budget: &retry.Budget{}}}
		if _, err := rt.RoundTrip(r); (err == nil) == wrote || sent != want {
			t.Errorf("header written %v: sent %d times, %v", wrote, sent, err)
		}
	}
}
