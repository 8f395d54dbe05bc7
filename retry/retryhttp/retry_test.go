package retryhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/retryhttp"
	"github.com/oncelib/once/store/memstore"
)

func TestGivenUp(t *testing.T) {
	s := &served{base: always(503)}
	resp, err := post(t.Context(), &retryhttp.Transport{Base: s})
	wantGivenUp(t, resp, err, retry.ReasonNotSafe, 1)
	if text := retryhttp.GivenUp(resp).Error(); !strings.Contains(text, "Try: an idempotency key") {
		t.Errorf("%s", text)
	}
	resp, err = post(t.Context(), &retryhttp.Transport{Base: &served{base: always(200)}})
	if err != nil || retryhttp.GivenUp(resp) != nil {
		t.Errorf("%v, %v", err, retryhttp.GivenUp(resp))
	}
	if retryhttp.GivenUp(nil) != nil || retryhttp.GivenUp(answer(503)) != nil {
		t.Error("given up by neither")
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
	var waits []time.Duration
	client := &http.Client{Transport: &retryhttp.Transport{Base: &http.Transport{}, Policy: retry.Policy{
		Attempts: 3, Base: ms, Observe: func(_ context.Context, e retry.Event) { waits = append(waits, e.Wait) },
	}}}
	resp, err := client.Post("http://127.0.0.1:1", "text/plain", strings.NewReader("x"))
	if err == nil {
		resp.Body.Close()
	}
	var e *retry.Error
	if !errors.As(err, &e) || e.Reason != retry.ReasonExhausted || e.Attempts != 3 || len(waits) != 3 {
		t.Errorf("%v", err)
	}
}

func TestBreakerEndsTheCall(t *testing.T) {
	shut := errors.New("shut")
	var said []retry.Health
	allowed := 2
	b := breakerFunc(func() (func(retry.Health), error) {
		if allowed--; allowed < 0 {
			return nil, shut
		}
		return func(o retry.Health) { said = append(said, o) }, nil
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
	if !errors.As(err, &e) || e.Reason != retry.ReasonOpen || e.Attempts != 2 || !errors.Is(err, shut) || !errors.As(err, &status) {
		t.Errorf("%v", err)
	}
	if !slices.Equal(said, []retry.Health{retry.HealthBad, retry.HealthBad}) {
		t.Errorf("told %v", said)
	}
}

func TestResendCount(t *testing.T) {
	var counts []int
	s := &served{base: func(n int, r *http.Request) (*http.Response, error) {
		counts = append(counts, retryhttp.ResendCount(r.Context()))
		return answer(503), nil
	}}
	resp, err := post(t.Context(), &retryhttp.Transport{Base: s, Policy: retry.Policy{Base: -1, Attempts: 3}}, "Idempotency-Key", "k")
	wantGivenUp(t, resp, err, retry.ReasonExhausted, 3)
	if !slices.Equal(counts, []int{0, 1, 2}) || retryhttp.ResendCount(t.Context()) != 0 {
		t.Errorf("%v", counts)
	}
}

// Only 409 says that an operation is in flight, whatever else is written below another
// status.
func TestInFlightIs409(t *testing.T) {
	s := &served{base: func(int, *http.Request) (*http.Response, error) { return problem(422, inFlight), nil }}
	resp, err := post(t.Context(), &retryhttp.Transport{Base: s}, "Idempotency-Key", "k")
	if err != nil || resp.StatusCode != http.StatusUnprocessableEntity || len(s.requests()) != 1 {
		t.Errorf("%v, %v, sent %d", resp, err, len(s.requests()))
	}
}

// Stripe says "in flight" without a code of ours, and it is just as healthy and as cheap.
func TestStripeInFlight(t *testing.T) {
	var said []retry.Health
	var classes []retry.Class
	policy := retry.Policy{Base: -1, Attempts: 3, Budget: &retry.Budget{}, Breaker: breakerFunc(func() (func(retry.Health), error) {
		return func(o retry.Health) { said = append(said, o) }, nil
	}), Observe: func(_ context.Context, e retry.Event) { classes = append(classes, e.Class) }}
	s := &served{base: func(n int, _ *http.Request) (*http.Response, error) {
		switch n {
		case 1:
			return answer(409, "Stripe-Should-Retry", "true", "Content-Type", "application/json"), nil
		case 2:
			return answer(400, "Stripe-Should-Retry", "true"), nil
		}
		return answer(409), nil
	}}
	resp, err := post(t.Context(), &retryhttp.Transport{Base: s, Policy: policy}, "Idempotency-Key", "k")
	if err != nil || resp.StatusCode != http.StatusConflict {
		t.Fatal(resp, err)
	}
	if !slices.Equal(said, []retry.Health{retry.HealthGood, retry.HealthBad, retry.HealthGood}) || !slices.Equal(classes, []retry.Class{retry.ClassInFlight, retry.ClassUnknown, retry.ClassFinal}) {
		t.Errorf("the breaker was told %v, of %v", said, classes)
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
	wantGivenUp(t, resp, err, retry.ReasonExhausted, 5)
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
	inner := oncehttp.Middleware(engine, oncehttp.Config{Principal: oncehttp.SharedPrincipal()})(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
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
	client := &http.Client{Transport: &retryhttp.Transport{Base: &http.Transport{}, Keys: true, Dialect: retryhttp.Dialect{Announce: true}, Policy: retry.Policy{Base: ms}}}
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
