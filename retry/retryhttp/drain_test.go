package retryhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/retryhttp"
)

// bodyOfAnswer knows what is done to it.
type bodyOfAnswer struct {
	io.Reader

	left   atomic.Int64 // of its length
	closed atomic.Int32
}

func (b *bodyOfAnswer) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.left.Add(-int64(n))
	if err != nil {
		b.left.Store(0)
	}
	return n, err
}

func (b *bodyOfAnswer) Close() error {
	b.closed.Add(1)
	return nil
}

// drains is a base that remembers the bodies of its answers.
type drains struct {
	*served

	mu     sync.Mutex
	bodies []*bodyOfAnswer
}

func newDrains(b base) *drains {
	d := new(drains)
	d.served = &served{base: func(n int, r *http.Request) (*http.Response, error) {
		resp, err := b(n, r)
		if err != nil {
			return nil, err
		}
		body := &bodyOfAnswer{Reader: resp.Body}
		body.left.Store(resp.ContentLength)
		resp.Body = body
		d.mu.Lock()
		defer d.mu.Unlock()
		d.bodies = append(d.bodies, body)
		return resp, nil
	}}
	return d
}

// Each answer that the caller does not get is read to its end and closed once, whatever
// becomes of it; the one that he gets is his to close.
func TestAnswersAreClosed(t *testing.T) {
	after := func(d time.Duration, status int) func(*http.Request) (*http.Response, error) {
		return func(*http.Request) (*http.Response, error) {
			<-time.After(d) // whatever becomes of the attempt
			return answer(status), nil
		}
	}
	cut := func(*http.Request) (*http.Response, error) {
		resp := answer(200)
		resp.Body = io.NopCloser(io.MultiReader(strings.NewReader("te"), broken{}))
		return resp, nil
	}
	type do = func(*http.Request) (*http.Response, error)
	refused := problem(409, inFlight).Header.Get("Content-Type")
	for _, c := range []struct {
		name   string
		does   []do
		change func(*retryhttp.Transport, context.CancelFunc)
		unread int // answers that cannot be read to their end
		status int // of the caller's answer; 0: an error
		copied bool
	}{
		{name: "retries", does: []do{after(0, 503), after(0, 500), after(0, 429), after(0, 404)}, status: 404, copied: true},
		{name: "the last one is a failure", does: []do{after(0, 503), after(0, 503)}, change: func(t *retryhttp.Transport, _ context.CancelFunc) { t.Policy.Attempts = 2 }, status: 503},
		{name: "it is not kept", does: []do{after(0, 503), after(0, 200)}, change: func(t *retryhttp.Transport, _ context.CancelFunc) { t.Buffer = -1 }, status: 200},
		{name: "problems", does: []do{conflict, conflict, after(0, 200)}, status: 200, copied: true},
		{name: "a cut problem", does: []do{func(*http.Request) (*http.Response, error) {
			resp := answer(409, "Content-Type", refused)
			resp.Body = io.NopCloser(broken{})
			return resp, nil
		}, after(0, 200)}, status: 200, copied: true},
		{name: "a cut answer", does: []do{cut, after(0, 200)}, status: 200, copied: true},
		{name: "the hedge wins", does: []do{after(3*time.Second, 200), after(0, 200)}, change: hedged, status: 200, copied: true},
		{name: "the hedge loses", does: []do{after(2*time.Second, 200), after(3*time.Second, 200)}, change: hedged, status: 200, copied: true},
		{name: "the hedge fails", does: []do{after(2*time.Second, 200), after(0, 503)}, change: hedged, status: 200, copied: true},
		{name: "the hedge meets the first", does: []do{after(2*time.Second, 200), conflict}, change: hedged, status: 200, copied: true},
		{name: "both fail", does: []do{after(2*time.Second, 503), conflict, after(0, 200)}, change: hedged, status: 200, copied: true},
		{name: "cancelled in the pause", does: []do{after(0, 503)}, change: func(t *retryhttp.Transport, cancel context.CancelFunc) {
			t.Policy.Base, t.Policy.Observe = time.Hour, func(context.Context, retry.Event) { time.AfterFunc(time.Nanosecond, cancel) }
			t.Policy.Total = -1
		}},
		{name: "cancelled in the attempt", does: []do{after(time.Second, 503)}, change: func(_ *retryhttp.Transport, cancel context.CancelFunc) {
			time.AfterFunc(500*ms, cancel)
		}},
		{name: "the breaker opens", does: []do{after(0, 503)}, change: func(t *retryhttp.Transport, _ context.CancelFunc) {
			allowed := 1
			t.Policy.Breaker = breakerFunc(func() (func(retry.Health), error) {
				if allowed--; allowed < 0 {
					return nil, errors.New("shut")
				}
				return func(retry.Health) {}, nil
			})
		}},
		{name: "too slow", does: []do{after(2*time.Second, 200), after(2*time.Second, 503), after(0, 200)}, change: func(t *retryhttp.Transport, _ context.CancelFunc) {
			t.Policy.Timeout, t.Buffer = time.Second, -1
		}, unread: 2, status: 200},
		{name: "a redirect", does: []do{after(0, 503), func(*http.Request) (*http.Response, error) {
			return answer(307, "Location", "/new"), nil
		}, after(0, 503), after(0, 200)}, status: 200, copied: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDrains(func(n int, r *http.Request) (*http.Response, error) { return c.does[n-1](r) })
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				transport := &retryhttp.Transport{Base: d, Policy: retry.Policy{Base: -1, Budget: &retry.Budget{Burst: -1}}}
				if c.change != nil {
					c.change(transport, cancel)
				}
				r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://service.example/old", strings.NewReader("body"))
				r.Header.Set("Idempotency-Key", "k")
				resp, err := (&http.Client{Transport: transport}).Do(r)
				if (err != nil) != (c.status == 0) || err == nil && resp.StatusCode != c.status {
					t.Fatalf("%v, %v", resp, err)
				}
				synctest.Wait()
				<-time.After(time.Minute) // for who has lost
				synctest.Wait()
				if len(d.bodies) != len(c.does) {
					t.Fatalf("vacuous: %d answers of %d", len(d.bodies), len(c.does))
				}
				open := 0
				for i, b := range d.bodies {
					switch n := b.closed.Load(); {
					case n == 0:
						open++
					case n > 1:
						t.Errorf("answer %d was closed %d times", i+1, n)
					case b.left.Load() > 0:
						c.unread--
					}
				}
				if c.unread != 0 {
					t.Errorf("%d answers too many were closed, but not read", -c.unread)
				}
				want := 0
				if c.status != 0 && !c.copied {
					want = 1
				}
				if open != want {
					t.Errorf("%d answers are open, want %d", open, want)
				}
				if err != nil {
					return
				}
				if text, err := io.ReadAll(resp.Body); err != nil || len(text) == 0 {
					t.Errorf("the caller reads %q, %v", text, err)
				}
				resp.Body.Close()
				for i, b := range d.bodies {
					if n := b.closed.Load(); n != 1 {
						t.Errorf("in the end answer %d is closed %d times", i+1, n)
					}
				}
			})
		})
	}
}

// A base that returns an answer beside an error, or one without a body, breaks the rules of
// http.RoundTripper. The body beside the error is closed; no body is an empty one.
func TestAnswersAgainstTheRules(t *testing.T) {
	body := &bodyOfAnswer{Reader: strings.NewReader("text")}
	s := &served{base: func(n int, _ *http.Request) (*http.Response, error) {
		resp := answer(503)
		if resp.Body = nil; n == 1 {
			resp.Body = body
			return resp, errors.New("and an error")
		} else if n > 2 {
			resp.StatusCode = http.StatusOK
		}
		return resp, nil
	}}
	resp, err := post(t.Context(), &retryhttp.Transport{Base: s, Policy: retry.Policy{Base: -1}}, "Idempotency-Key", "k")
	if err != nil || resp.StatusCode != http.StatusOK || len(s.requests()) != 3 {
		t.Fatalf("%v, %v after %d requests", resp, err, len(s.requests()))
	}
	if n := body.closed.Load(); n != 1 {
		t.Errorf("the body beside the error was closed %d times", n)
	}
}

func hedged(t *retryhttp.Transport, _ context.CancelFunc) { t.Hedge = time.Second }

// broken is a body that is cut.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
