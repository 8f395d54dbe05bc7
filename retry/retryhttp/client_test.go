package retryhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptrace"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/retryhttp"
)

// Classify says what the transport would do, and leaves the answer as it was.
func TestClassifyAnswers(t *testing.T) {
	for _, c := range []struct {
		name  string
		resp  *http.Response
		err   error
		keyed bool
		class retry.Class
		after time.Duration
	}{
		{"a success", answer(200, "Retry-After", "1"), nil, false, retry.ClassFinal, 0},
		{"nothing", nil, nil, false, retry.ClassFinal, 0},
		{"500", answer(500), nil, false, retry.ClassUnknown, 0},
		{"501", answer(501), nil, false, retry.ClassFinal, 0},
		{"404", answer(404), nil, false, retry.ClassFinal, 0},
		{"429", answer(429), nil, false, retry.ClassThrottled, 0},
		{"429 with a time", answer(429, "Retry-After", "1.5"), nil, false, retry.ClassRateLimited, 1500 * ms},
		{"503 with a time", answer(503, "Retry-After-Ms", "20"), nil, false, retry.ClassThrottled, 20 * ms},
		{"in flight", problem(409, inFlight), nil, true, retry.ClassInFlight, 0},
		{"409 with a time, for a key", answer(409, "Retry-After", "1"), nil, true, retry.ClassInFlight, time.Second},
		{"409 with the time 0, for a key", answer(409, "Retry-After", "0"), nil, true, retry.ClassInFlight, 0},
		{"425", answer(425), nil, false, retry.ClassTransient, 0},
		{"408", answer(408), nil, false, retry.ClassUnknown, 0},
		{"409 with a time", answer(409, "Retry-After", "1"), nil, false, retry.ClassFinal, time.Second},
		{"a refused connection", nil, &net.OpError{Op: "dial", Err: errors.New("refused")}, true, retry.ClassTransient, 0},
		{"a reset", nil, io.ErrUnexpectedEOF, true, retry.ClassUnknown, 0},
		{"no such host", nil, &net.DNSError{IsNotFound: true}, true, retry.ClassFinal, 0},
	} {
		if c.resp != nil {
			c.resp.Request = &http.Request{Header: http.Header{}}
			if c.keyed {
				c.resp.Request.Header.Set("Idempotency-Key", "k")
			}
		}
		class, after := retryhttp.Classify(c.resp, c.err)
		if class != c.class || after != c.after {
			t.Errorf("%s: %v, %v; want %v, %v", c.name, class, after, c.class, c.after)
		}
		if c.resp != nil {
			if body, err := io.ReadAll(c.resp.Body); len(body) == 0 || err != nil {
				t.Errorf("%s: of the body %q is left, %v", c.name, body, err)
			}
		}
	}
}

// The context of a call may say how often it is tried, and that it can be repeated.
func TestContextOfACall(t *testing.T) {
	ctx := t.Context()
	twice := retryhttp.WithPolicy(ctx, retry.Policy{Attempts: 2, Base: -1})
	for _, c := range []struct {
		name string
		ctx  context.Context //nolint:containedctx // a table
		keys bool
		sent int
		key  bool
	}{
		{"as the transport says", ctx, false, 1, false},
		{"a key of ours", ctx, true, 4, true},
		{"idempotent", retryhttp.WithIdempotent(ctx), false, 4, false},
		{"idempotent, where keys are made", retryhttp.WithIdempotent(ctx), true, 4, false},
		{"twice", retryhttp.WithIdempotent(twice), false, 2, false},
		{"twice what cannot be repeated", twice, false, 1, false},
	} {
		events, budget := 0, &retry.Budget{}
		s := &served{base: always(503)}
		rt := &retryhttp.Transport{Base: s, Keys: c.keys, Policy: retry.Policy{Attempts: 4, Base: -1, Budget: budget, Observe: func(context.Context, retry.Event) { events++ }}}
		resp, err := post(c.ctx, rt)
		if err != nil || resp.StatusCode != http.StatusServiceUnavailable {
			t.Fatal(err)
		}
		if n := len(s.requests()); n != c.sent || events != c.sent || budget.State().Left != float64(11-c.sent) || (s.header("Idempotency-Key")[0] != "") != c.key {
			t.Errorf("%s: sent %d, %d events, %+v, keys %q", c.name, n, events, budget.State(), s.header("Idempotency-Key"))
		}
	}
	own := &retry.Budget{Burst: 1}
	rt := retryhttp.NewClient(&retryhttp.Transport{Base: always(503)}).Transport.(*retryhttp.Transport)
	if _, err := post(retryhttp.WithPolicy(ctx, retry.Policy{Base: -1, Budget: own}), rt, "Idempotency-Key", "k"); err != nil || own.State().Left != 0 {
		t.Errorf("%v, %+v", err, own.State())
	}
	if retryhttp.NewClient(nil).Transport == nil {
		t.Error("a client without a transport")
	}
}

// The cookies of an answer that is followed by another attempt are not kept, and so the
// next attempt does not carry them.
func TestCookiesOfAFailure(t *testing.T) {
	s := &served{base: func(n int, _ *http.Request) (*http.Response, error) {
		if n == 1 {
			return answer(503, "Set-Cookie", "node=sick"), nil
		}
		return answer(200, "Set-Cookie", "node=well"), nil
	}}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &retryhttp.Transport{Base: s, Policy: retry.Policy{Base: -1, Budget: &retry.Budget{}}}, Jar: jar}
	for range 2 {
		resp, err := client.Get("http://service.example/")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	if got := s.header("Cookie"); !slices.Equal(got, []string{"", "", "node=well"}) {
		t.Errorf("cookies %q", got)
	}
}

// Before each attempt the header may be changed, but for the key.
func TestBeforeAttempt(t *testing.T) {
	for _, body := range []string{"", "body"} {
		s := &served{base: func(n int, _ *http.Request) (*http.Response, error) {
			if n < 3 {
				return answer(503), nil
			}
			return answer(200), nil
		}}
		rt := &retryhttp.Transport{Base: s, Policy: retry.Policy{Base: -1, Budget: &retry.Budget{}}, BeforeAttempt: func(r *http.Request) error {
			r.Header.Set("Authorization", fmt.Sprint("Bearer ", retryhttp.ResendCount(r.Context())))
			r.Header.Set("Idempotency-Key", "another")
			r.Header.Set("X-Idempotency-Key", "yet another")
			return nil
		}}
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://service.example", strings.NewReader(body))
		r.Header.Set("Idempotency-Key", "k")
		resp, err := rt.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := s.header("Authorization"); !slices.Equal(got, []string{"Bearer 0", "Bearer 1", "Bearer 2"}) || r.Header.Get("Authorization") != "" {
			t.Errorf("tokens %q, the caller's header %v", got, r.Header)
		}
		for _, sent := range s.requests() {
			keys := 0
			for name, lines := range sent.Header {
				if strings.Contains(strings.ToLower(name), "idempotency-key") {
					keys++
					if !slices.Equal(lines, []string{"k"}) {
						t.Errorf("%s: %q", name, lines)
					}
				}
			}
			if keys != 1 {
				t.Errorf("header %v", sent.Header)
			}
		}
	}

	s, none := &served{base: always(200)}, errors.New("no token")
	body := &opaque{Reader: strings.NewReader("body")}
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://service.example", body)
	_, err := (&retryhttp.Transport{Base: s, BeforeAttempt: func(*http.Request) error { return none }}).RoundTrip(r)
	if !errors.Is(err, none) || len(s.requests()) != 0 || body.closed.Load() != 1 {
		t.Errorf("%v, sent %d, closed %d", err, len(s.requests()), body.closed.Load())
	}
}

// Each call ends with one final event, and what was sent meanwhile is told.
func TestEventsOfACall(t *testing.T) {
	stale := func(r *http.Request) (*http.Response, error) {
		httptrace.ContextClientTrace(r.Context()).GotConn(httptrace.GotConnInfo{Reused: true, WasIdle: true})
		return nil, io.EOF
	}
	for _, c := range []struct {
		name string
		base base
		rt   retryhttp.Transport
		ctx  func(context.Context) (context.Context, context.CancelFunc)
		want string
	}{
		{name: "a success", base: always(200), want: "done 1"},
		{name: "a refusal", base: always(404), want: "done 1 HTTP 404 Not Found"},
		{name: "a success, later", base: func(n int, r *http.Request) (*http.Response, error) {
			switch n {
			case 1:
				return answer(503), nil
			case 2:
				return stale(r)
			}
			return answer(200), nil
		}, want: "failed 1 HTTP 503 Service Unavailable, resent 2 EOF, done 3"},
		{name: "too often", base: always(500), rt: retryhttp.Transport{Policy: retry.Policy{Attempts: 2}}, want: "failed 1 HTTP 500 Internal Server Error, failed 2 HTTP 500 Internal Server Error exhausted"},
		{name: "hedged", base: func(n int, r *http.Request) (*http.Response, error) {
			if n == 1 {
				return hangs(r)
			}
			return answer(200), nil
		}, rt: retryhttp.Transport{Hedge: time.Second}, want: "hedged 1, done 2"},
		{name: "cancelled in a pause", base: always(503, "Retry-After", "5"), ctx: func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
			return ctx, cancel
		}, want: "failed 1 HTTP 503 Service Unavailable, ended 1 retry: cancelled after 1 attempt: context canceled; the last failure: HTTP 503 Service Unavailable cancelled"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var events []string
			final := 0
			c.rt.Policy.Budget, c.rt.Policy.Base = &retry.Budget{}, -1
			c.rt.Policy.Observe = func(_ context.Context, e retry.Event) {
				text := fmt.Sprint(e.Type, " ", e.Attempt)
				if e.Err != nil {
					text += " " + e.Err.Error()
				}
				if e.Stop != "" {
					text += " " + string(e.Stop)
				}
				if events = append(events, text); e.Final() {
					final++
				}
				if e.Method != http.MethodPost || e.URL != "https://service.example/refunds" {
					t.Errorf("%s: of %s %s", c.name, e.Method, e.URL)
				}
			}
			c.rt.Base = &served{base: c.base}
			ctx := t.Context()
			if c.ctx != nil {
				var cancel context.CancelFunc
				ctx, cancel = c.ctx(ctx)
				defer cancel()
			}
			r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "https://me:secret@service.example/refunds?token=secret#x", strings.NewReader("body"))
			r.Header.Set("Idempotency-Key", "k")
			if resp, err := c.rt.RoundTrip(r); err == nil {
				resp.Body.Close()
			}
			if got := strings.Join(events, ", "); got != c.want || final != 1 {
				t.Errorf("%s: %s; want %s; %d final", c.name, got, c.want, final)
			}
		})
	}
}
