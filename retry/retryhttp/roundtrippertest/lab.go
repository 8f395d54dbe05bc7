package roundtrippertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// lab is the environment of one check.
type lab struct {
	ctx       context.Context //nolint:containedctx // it lives as long as the check
	candidate Candidate

	mu      sync.Mutex
	onClose []func()
}

func (l *lab) atEnd(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onClose = append(l.onClose, f)
}

func (l *lab) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.onClose {
		f()
	}
}

// client is a client under test.
type client struct {
	*http.Client

	base *http.Transport
	sent atomic.Int32  // number of requests to base
	back chan struct{} // if it is not nil, RoundTrip sends to it after each answer of base
}

// RoundTrip implements [http.RoundTripper]. The candidate sends its attempts with RoundTrip, which counts the attempts.
func (c *client) RoundTrip(r *http.Request) (*http.Response, error) {
	c.sent.Add(1)
	resp, err := c.base.RoundTrip(r)
	if c.back != nil {
		c.back <- struct{}{}
	}
	return resp, err
}

// CloseIdleConnections closes the idle connections of the base, because a candidate may call this method of its base.
func (c *client) CloseIdleConnections() { c.base.CloseIdleConnections() }

func (l *lab) client() *client { return l.make(l.candidate.New) }

var errNoKeys = errors.New("the client makes no keys")

func (l *lab) clientWithKeys() (*client, error) {
	if l.candidate.NewWithKeys == nil {
		return nil, errNoKeys
	}
	return l.make(l.candidate.NewWithKeys), nil
}

func (l *lab) make(candidate func(http.RoundTripper) http.RoundTripper) *client {
	c := &client{base: &http.Transport{MaxIdleConnsPerHost: 200}}
	c.Client = &http.Client{Transport: candidate(c)}
	l.atEnd(c.base.CloseIdleConnections)
	return c
}

// site is a server that remembers its requests.
type site struct {
	*httptest.Server

	conns atomic.Int32
	mu    sync.Mutex
	all   []arrival
}

type arrival struct {
	at     time.Time
	header http.Header
	body   string
	path   string
}

// key is the idempotency key of the request, without quotation marks.
func (a arrival) key() string { return strings.Trim(a.header.Get("Idempotency-Key"), `"`) }

// serve starts a server. The parameter n of handle is the number of the request, from 1. The body of the request has already been read.
func (l *lab) serve(handle func(n int, w http.ResponseWriter, r *http.Request)) *site {
	s := new(site)
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.all = append(s.all, arrival{time.Now(), r.Header.Clone(), string(body), r.URL.Path})
		n := len(s.all)
		s.mu.Unlock()
		handle(n, w, r)
	}))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.conns.Add(1)
		}
	}
	s.Start()
	l.atEnd(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *site) arrivals() []arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]arrival(nil), s.all...)
}

// wantSends returns an error unless exactly n requests have arrived.
func (s *site) wantSends(n int) error {
	if got := len(s.arrivals()); got != n {
		return fmt.Errorf("%d requests have arrived, not %d", got, n)
	}
	return nil
}

// same fails unless all requests have this key and this body.
func (s *site) same(key, body string) error {
	for i, a := range s.arrivals() {
		if a.key() != key {
			return fmt.Errorf("request %d has the key %q, not %q", i+1, a.key(), key)
		}
		if a.body != body {
			return fmt.Errorf("request %d has a body of %d bytes, and not the expected body of %d bytes", i+1, len(a.body), len(body))
		}
	}
	return nil
}

// gap returns the time between the first two requests.
func (s *site) gap() time.Duration {
	if a := s.arrivals(); len(a) > 1 {
		return a[1].at.Sub(a[0].at)
	}
	return 0
}

const (
	testKey  = "7b1c7c1e-key-of-the-check"
	testBody = `{"amount":1000}`
)

func keyed(r *http.Request) { r.Header.Set("Idempotency-Key", testKey) }

// reply is an answer, read to its end.
type reply struct {
	status int
	body   string
	header http.Header
}

// do sends a request. Its body is an ordinary one, which can be read again.
func (l *lab) do(ctx context.Context, c *client, method, url, body string, change ...func(*http.Request)) (reply, error) {
	var content io.Reader
	if body != "" {
		content = bytes.NewReader([]byte(body))
	}
	req, err := http.NewRequestWithContext(ctx, method, url, content)
	if err != nil {
		return reply{}, err
	}
	for _, f := range change {
		f(req)
	}
	resp, err := c.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	read, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, string(read), resp.Header}, err
}

// post sends a POST with a key.
func (l *lab) post(c *client, url string) (reply, error) {
	return l.do(l.ctx, c, http.MethodPost, url, testBody, keyed)
}

// wantStatus fails if the answer is missing or has another status.
func wantStatus(a reply, err error, status int) error {
	if err != nil {
		return err
	}
	if a.status != status {
		return fmt.Errorf("the answer is %d, not %d", a.status, status)
	}
	return nil
}

// failThen answers with status before the n-th request, and with 200 from the n-th request on.
func failThen(status, n int, header ...string) func(int, http.ResponseWriter, *http.Request) {
	return func(i int, w http.ResponseWriter, _ *http.Request) {
		if i >= n {
			_, _ = io.WriteString(w, "done")
			return
		}
		for j := 0; j+1 < len(header); j += 2 {
			w.Header().Set(header[j], header[j+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "sorry")
	}
}

const always = 1 << 30

// inFlight is oncehttp's answer for a running operation.
const inFlight = `{"type":"https://oncelib.dev/problems/conflict/idempotency/in-flight","title":"Operation in flight","status":409,"code":"CONFLICT.idempotency.in_flight","retryable":true,"safe_new_key":false}`

// reset ends the connection of w without an answer.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// problem answers with a problem document.
func problem(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}
