package retryhttp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/retryhttp"
)

const ms = time.Millisecond

// base is a transport whose answers are given, for what a clock decides. What is real
// about requests is judged by the suite, over real connections.
type base func(n int, r *http.Request) (*http.Response, error)

// served is a base that counts.
type served struct {
	mu   sync.Mutex
	all  []*http.Request
	base base
}

func (s *served) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		body, _ := io.ReadAll(r.Body)
		r.Body.Close()
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	s.mu.Lock()
	s.all = append(s.all, r)
	n := len(s.all)
	s.mu.Unlock()
	return s.base(n, r)
}

func (s *served) requests() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

func (s *served) header(name string) (values []string) {
	for _, r := range s.requests() {
		values = append(values, r.Header.Get(name))
	}
	return values
}

func answer(status int, header ...string) *http.Response {
	resp := &http.Response{StatusCode: status, Header: make(http.Header), Body: io.NopCloser(strings.NewReader("text")), ContentLength: 4}
	for i := 0; i+1 < len(header); i += 2 {
		resp.Header.Set(header[i], header[i+1])
	}
	return resp
}

func always(status int, header ...string) base {
	return func(int, *http.Request) (*http.Response, error) { return answer(status, header...), nil }
}

// post sends a POST through t, with a budget of its own unless it has one.
func post(ctx context.Context, t *retryhttp.Transport, header ...string) (*http.Response, error) {
	if t.Policy.Budget == nil {
		t.Policy.Budget = &retry.Budget{}
	}
	if !t.Dialect.Announce { // others may use it at the same time
		t.Dialect.Announce = true
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://service.example/refunds", strings.NewReader("body"))
	if err != nil {
		return nil, err
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := t.RoundTrip(r)
	if err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	return resp, err
}

func wantGivenUp(t *testing.T, resp *http.Response, err error, reason retry.Reason, attempts int) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v; want the last answer", err)
	}
	var status *retryhttp.StatusError
	if e := retryhttp.GivenUp(resp); e == nil || e.Reason != reason || e.Attempts != attempts || !errors.As(e, &status) || status.Status != resp.StatusCode {
		t.Errorf("given up: %v; want %s after %d", e, reason, attempts)
	}
}

type breakerFunc func() (func(retry.Health), error)

func (f breakerFunc) Allow() (func(retry.Health), error) { return f() }

// RoundTrip implements http.RoundTripper, for a base that need not count.
func (b base) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
		r.Body.Close()
	}
	return b(0, r)
}
