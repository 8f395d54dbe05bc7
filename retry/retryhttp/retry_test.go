package retryhttp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/retryhttp"
	"github.com/oncelib/once/store/memstore"
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

func TestHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &served{base: always(503, "Retry-After", "2")}
		resp, err := post(t.Context(), &retryhttp.Transport{Base: s, Policy: retry.Policy{Base: -1, Attempts: 3}}, "Idempotency-Key", "k")
		wantGivenUp(t, resp, err, retry.Exhausted, 3)
		if got := s.header("Once-Attempt"); !slices.Equal(got, []string{"1", "2", "3"}) {
			t.Errorf("attempts %v", got)
		}
		left := s.header("X-Request-Timeout")
		for i, least := range []int{10_000, 7_700, 5_500} {
			if n, err := strconv.Atoi(left[i]); err != nil || n > 10_000-2_000*i || n < least {
				t.Errorf("attempt %d was told that %q ms are left", i+1, left[i])
			}
		}
		if got := resp.Request.Header.Get("Idempotency-Key"); got != "k" {
			t.Errorf("the answer's request has the key %q", got)
		}
	})
}

func TestHeadersOfTheCaller(t *testing.T) {
	s := &served{base: always(200)}
	_, err := post(t.Context(), &retryhttp.Transport{Base: s}, "Once-Attempt", "7", "X-Request-Timeout", "1.5s")
	if h := s.requests()[0].Header; err != nil || h.Get("Once-Attempt") != "7" || h.Get("X-Request-Timeout") != "1.5s" {
		t.Errorf("%v, sent %v", err, h)
	}
}

func TestTimeoutOfAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &served{base: func(n int, r *http.Request) (*http.Response, error) {
			if n < 3 {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return answer(200), nil
		}}
		start := time.Now()
		_, err := post(t.Context(), &retryhttp.Transport{Base: s, Policy: retry.Policy{Base: -1, Timeout: time.Second}}, "Idempotency-Key", "k")
		if took := time.Since(start); err != nil || took != 2*time.Second {
			t.Errorf("%v after %v", err, took)
		}
		if got := s.header("X-Request-Timeout"); got[0] != "1000" {
			t.Errorf("told %v", got)
		}
	})
}

func TestTotal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &served{base: func(_ int, r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}}
		start := time.Now()
		_, err := post(t.Context(), &retryhttp.Transport{Base: s}, "Idempotency-Key", "k")
		var e *retry.Error
		if !errors.As(err, &e) || e.Reason != retry.TooLate || !e.Timeout() || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// The body of an answer may take longer than Total.
func TestTotalEndsWithTheHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &served{base: func(_ int, r *http.Request) (*http.Response, error) {
			slow, w := io.Pipe()
			go func() {
				select {
				case <-time.After(time.Minute):
					_, _ = io.WriteString(w, "late")
					_ = w.Close()
				case <-r.Context().Done():
					w.CloseWithError(r.Context().Err())
				}
			}()
			resp := answer(200)
			resp.Body, resp.ContentLength = slow, -1
			return resp, nil
		}}
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://service.example", http.NoBody)
		resp, err := (&retryhttp.Transport{Base: s}).RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "late" {
			t.Errorf("%q, %v", text, err)
		}
		if resp.Request.Context().Err() == nil {
			t.Error("the attempt is not over with its body")
		}
	})
}

func TestKeys(t *testing.T) {
	for _, c := range []struct {
		name   string
		method string
		ctx    string
		header string
		keys   bool
		want   string // "*" for a new one
	}{
		{"none", "POST", "", "", false, ""},
		{"its own", "POST", "", "mine", true, "mine"},
		{"of the context", "POST", "ctx", "", false, "ctx"},
		{"the same in both", "POST", "mine", "mine", false, "mine"},
		{"of the context, for PUT", "PUT", "ctx", "", false, "ctx"},
		{"not for GET", "GET", "ctx", "", true, ""},
		{"a new one", "PATCH", "", "", true, "*"},
		{"not for PUT", "PUT", "", "", true, ""},
		{"quoted if it must be", "POST", `a "b", c`, "", false, `"a \"b\", c"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &served{base: always(200)}
			ctx := t.Context()
			if c.ctx != "" {
				ctx = retryhttp.WithKey(ctx, retryhttp.Key{Value: c.ctx})
			}
			r, _ := http.NewRequestWithContext(ctx, c.method, "http://service.example", strings.NewReader("x"))
			if c.header != "" {
				r.Header.Set("Idempotency-Key", c.header)
			}
			resp, err := (&retryhttp.Transport{Base: s, Keys: c.keys}).RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if got := s.header("Idempotency-Key")[0]; got != c.want && (c.want != "*" || len(got) != 36) {
				t.Errorf("sent with the key %q, want %q", got, c.want)
			}
		})
	}
}

func TestKeysThatCannotBe(t *testing.T) {
	for name, ctx := range map[string]context.Context{
		"two":     retryhttp.WithKey(t.Context(), retryhttp.Key{Value: "other"}),
		"empty":   retryhttp.WithKey(t.Context(), retryhttp.Key{}),
		"control": retryhttp.WithKey(t.Context(), retryhttp.Key{Value: "a\nb"}),
		"unicode": retryhttp.WithKey(t.Context(), retryhttp.Key{Value: "schlüssel"}),
	} {
		s := &served{base: always(200)}
		var header []string
		if name == "two" {
			header = []string{"Idempotency-Key", "mine"}
		}
		if _, err := post(ctx, &retryhttp.Transport{Base: s}, header...); err == nil || len(s.requests()) != 0 {
			t.Errorf("%s: %v, sent %d", name, err, len(s.requests()))
		}
	}
}

func TestExpiredKeyIsNotSent(t *testing.T) {
	s := &served{base: always(200)}
	ctx := retryhttp.WithKey(t.Context(), retryhttp.Key{Value: "k", Since: time.Now().Add(-25 * time.Hour)})
	_, err := post(ctx, &retryhttp.Transport{Base: s})
	var e *retry.Error
	if !errors.As(err, &e) || e.Reason != retry.Expired || len(s.requests()) != 0 {
		t.Errorf("%v, sent %d", err, len(s.requests()))
	}
}

// The retention is what is configured, or less if the server says so.
func TestKeyExpiresWhileRetrying(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			name     string
			retain   time.Duration
			header   []string
			attempts int
		}{
			{"configured", 30 * time.Second, []string{"Retry-After", "20"}, 2},
			{"advertised", 0, []string{"Retry-After", "20", "Idempotency-Retention", "30"}, 2},
			{"advertised as longer", 30 * time.Second, []string{"Retry-After", "20", "Idempotency-Retention", "86400"}, 2},
			{"long", 0, []string{"Retry-After", "20"}, 5},
		} {
			s := &served{base: always(503, c.header...)}
			resp, err := post(t.Context(), &retryhttp.Transport{Base: s, Retention: c.retain, Policy: retry.Policy{Total: time.Hour}}, "Idempotency-Key", "k")
			reason := retry.Expired
			if c.attempts == 5 {
				reason = retry.Exhausted
			}
			t.Log(c.name)
			wantGivenUp(t, resp, err, reason, c.attempts)
		}
	})
}

func TestGivenUp(t *testing.T) {
	s := &served{base: always(503)}
	resp, err := post(t.Context(), &retryhttp.Transport{Base: s})
	wantGivenUp(t, resp, err, retry.NotSafe, 1)
	if text := retryhttp.GivenUp(resp).Error(); !strings.Contains(text, "Try: an idempotency key") {
		t.Errorf("%s", text)
	}
	resp, err = post(t.Context(), &retryhttp.Transport{Base: &served{base: always(200)}})
	if err != nil || retryhttp.GivenUp(resp) != nil {
		t.Errorf("%v, %v", err, retryhttp.GivenUp(resp))
	}
	if retryhttp.GivenUp(nil) != nil || retryhttp.GivenUp(answer(503)) != nil {
		t.Error("given up by nobody")
	}
}

func TestKeylessErrorSaysSo(t *testing.T) {
	broken := errors.New("broken pipe")
	s := &served{base: func(int, *http.Request) (*http.Response, error) { return nil, broken }}
	_, err := post(t.Context(), &retryhttp.Transport{Base: s})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "Try: an idempotency key") || len(s.requests()) != 1 {
		t.Errorf("%v, sent %d", err, len(s.requests()))
	}
}

// What has provably not been sent can be sent again, whatever it is.
func TestConnectionRefused(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	address := gone.URL
	gone.Close()
	var waits []time.Duration
	client := &http.Client{Transport: &retryhttp.Transport{Base: &http.Transport{}, Policy: retry.Policy{
		Attempts: 3, Base: ms, Observe: func(_ context.Context, e retry.Event) { waits = append(waits, e.Wait) },
	}}}
	resp, err := client.Post(address, "text/plain", strings.NewReader("x"))
	if err == nil {
		resp.Body.Close()
	}
	var e *retry.Error
	if !errors.As(err, &e) || e.Reason != retry.Exhausted || e.Attempts != 3 || len(waits) != 3 {
		t.Errorf("%v", err)
	}
}

func TestBreaker(t *testing.T) {
	shut := errors.New("shut")
	var said []retry.Outcome
	allowed := 2
	b := breakerFunc(func() (func(retry.Outcome), error) {
		if allowed--; allowed < 0 {
			return nil, shut
		}
		return func(o retry.Outcome) { said = append(said, o) }, nil
	})
	s := &served{base: always(503)}
	transport := &retryhttp.Transport{Base: s, Policy: retry.Policy{Base: -1}, Breaker: func(host string) retry.Breaker {
		if host != "service.example" {
			t.Errorf("breaker of %q", host)
		}
		return b
	}}
	_, err := post(t.Context(), transport, "Idempotency-Key", "k")
	var e *retry.Error
	var status *retryhttp.StatusError
	if !errors.As(err, &e) || e.Reason != retry.Open || e.Attempts != 2 || !errors.Is(err, shut) || !errors.As(err, &status) {
		t.Errorf("%v", err)
	}
	if !slices.Equal(said, []retry.Outcome{retry.Unhealthy, retry.Unhealthy}) {
		t.Errorf("told %v", said)
	}
}

type breakerFunc func() (func(retry.Outcome), error)

func (f breakerFunc) Allow() (func(retry.Outcome), error) { return f() }

func TestResendCount(t *testing.T) {
	var counts []int
	s := &served{base: func(n int, r *http.Request) (*http.Response, error) {
		counts = append(counts, retryhttp.ResendCount(r.Context()))
		return answer(503), nil
	}}
	resp, err := post(t.Context(), &retryhttp.Transport{Base: s, Policy: retry.Policy{Base: -1, Attempts: 3}}, "Idempotency-Key", "k")
	wantGivenUp(t, resp, err, retry.Exhausted, 3)
	if !slices.Equal(counts, []int{0, 1, 2}) || retryhttp.ResendCount(t.Context()) != 0 {
		t.Errorf("%v", counts)
	}
}

// Only 409 says that an operation is in flight, whatever else is written below another
// status.
func TestInFlightIs409(t *testing.T) {
	s := &served{base: func(int, *http.Request) (*http.Response, error) { return problem(422, inFlight), nil }}
	resp, err := post(t.Context(), &retryhttp.Transport{Base: s}, "Idempotency-Key", "k")
	if err != nil || resp.StatusCode != 422 || len(s.requests()) != 1 {
		t.Errorf("%v, %v, sent %d", resp, err, len(s.requests()))
	}
}

// An answer that comes when the context is over cannot be read by the caller.
func TestContextEndsWithTheAnswer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := &served{base: func(int, *http.Request) (*http.Response, error) {
		cancel()
		return answer(503), nil
	}}
	_, err := post(ctx, &retryhttp.Transport{Base: s}, "Idempotency-Key", "k")
	var status *retryhttp.StatusError
	if !errors.Is(err, context.Canceled) || !errors.As(err, &status) || status.Status != 503 {
		t.Errorf("%v", err)
	}
}

// Five attempts of five attempts are twenty-five.
func TestOneLayerRetries(t *testing.T) {
	s := &served{base: always(503)}
	inner := &retryhttp.Transport{Base: s, Policy: retry.Policy{Base: -1, Budget: &retry.Budget{Burst: -1}}}
	resp, err := post(t.Context(), &retryhttp.Transport{Base: inner, Policy: retry.Policy{Base: -1}}, "Idempotency-Key", "k")
	wantGivenUp(t, resp, err, retry.Exhausted, 5)
	if n := len(s.requests()); n != 5 {
		t.Errorf("sent %d times", n)
	}
}

func TestRetriesDrawFromTheHost(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer server.Close()
	client := &http.Client{Transport: &retryhttp.Transport{Base: &http.Transport{}, Policy: retry.Policy{Base: -1}}}
	resp, err := client.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if left := retry.BudgetFor(server.Listener.Addr().String()).State().Left; left != 6 {
		t.Errorf("%v of 10 retries are left after 4", left)
	}
}

// The two sides of this project, together: the effect is made once, although every
// answer but the last is lost.
func TestWithOnceHTTP(t *testing.T) {
	store := memstore.New()
	engine := once.New(store, once.Config{})
	executed := 0
	var attempts []int
	inner := oncehttp.Middleware(engine, oncehttp.Config{Principal: oncehttp.Global()})(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		executed++
		_, _ = io.WriteString(w, "refunded")
	}))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.Header.Get("Once-Attempt"))
		if attempts = append(attempts, n); n < 3 {
			inner.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		inner.ServeHTTP(w, r)
	}))
	defer server.Close()
	client := &http.Client{Transport: &retryhttp.Transport{Base: &http.Transport{}, Keys: true, Policy: retry.Policy{Base: ms}}}
	resp, err := client.Post(server.URL, "text/plain", strings.NewReader("5 EUR"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if string(body) != "refunded" || executed != 1 || !slices.Equal(attempts, []int{1, 2, 3}) || resp.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%q, executed %d times, attempts %v, %v", body, executed, attempts, resp.Header)
	}
}
