package retryhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/retryhttp"
)

func TestHeadersOfEachAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &served{base: always(503, "Retry-After", "2")}
		resp, err := post(t.Context(), &retryhttp.Transport{Base: s, Policy: retry.Policy{Base: -1, Attempts: 3}}, "Idempotency-Key", "k")
		wantGivenUp(t, resp, err, retry.ReasonExhausted, 3)
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

func TestTotalTimeEndsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &served{base: func(_ int, r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}}
		start := time.Now()
		_, err := post(t.Context(), &retryhttp.Transport{Base: s}, "Idempotency-Key", "k")
		var e *retry.Error
		if !errors.As(err, &e) || e.Reason != retry.ReasonTooLate || !e.Timeout() || !errors.Is(err, context.DeadlineExceeded) {
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
		var attempt context.Context
		s := &served{base: func(_ int, r *http.Request) (*http.Response, error) {
			attempt = r.Context() //nolint:fatcontext // to see how it ends
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
		if attempt.Err() == nil || resp.Request.Context().Err() != nil {
			t.Error("the attempt is not over with its body, or the caller's context is")
		}
	})
}

// The caller's own X-Request-Timeout is what he has left at the beginning. Each attempt
// says what is left of it then, and there is none when nothing is.
func TestTimeoutOfTheCaller(t *testing.T) {
	busy := always(503, "Retry-After", "1")
	for _, c := range []struct {
		name   string
		header string
		policy retry.Policy
		hedge  time.Duration
		base   base
		want   []string
		reason retry.Reason
	}{
		{name: "in milliseconds", header: "3000", base: busy, want: []string{"3000", "2000", "1000"}, reason: retry.ReasonTooLate},
		{name: "in words", header: "2.5s", base: busy, want: []string{"2.5s", "1500", "500"}, reason: retry.ReasonTooLate},
		{name: "more than we have", header: "60000", base: busy, want: []string{"10000", "9000", "8000", "7000", "6000"}, reason: retry.ReasonExhausted},
		{name: "more than an attempt has", header: "3000", policy: retry.Policy{Timeout: 500 * ms}, base: busy, want: []string{"500", "500", "500"}, reason: retry.ReasonTooLate},
		{name: "no bound of ours", header: "3000", policy: retry.Policy{Total: -1}, base: busy, want: []string{"3000", "2000", "1000"}, reason: retry.ReasonTooLate},
		{name: "unreadable", header: "soon", base: busy, want: []string{"soon", "soon", "soon", "soon", "soon"}, reason: retry.ReasonExhausted},
		{name: "negative", header: "-5", base: busy, want: []string{"-5", "-5", "-5", "-5", "-5"}, reason: retry.ReasonExhausted},
		{name: "a hedge", header: "3000", hedge: time.Second, base: func(_ int, r *http.Request) (*http.Response, error) {
			return ok(5 * time.Second)(r)
		}, want: []string{"3000", "2000"}},
		{name: "too late for a hedge", header: "900", hedge: time.Second, base: func(_ int, r *http.Request) (*http.Response, error) {
			return ok(5 * time.Second)(r)
		}, want: []string{"900"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &served{base: c.base}
				c.policy.Base = -1
				c.policy.Budget = &retry.Budget{Burst: -1}
				resp, err := post(t.Context(), &retryhttp.Transport{Base: s, Hedge: c.hedge, Policy: c.policy}, "Idempotency-Key", "k", "X-Request-Timeout", c.header)
				if c.reason != "" {
					wantGivenUp(t, resp, err, c.reason, len(c.want))
				} else if err != nil {
					t.Error(err)
				}
				got := s.header("X-Request-Timeout")
				if len(got) != len(c.want) {
					t.Fatalf("sent %q, want %q", got, c.want)
				}
				for i := range got {
					if got[i] == c.want[i] {
						continue
					}
					n, _ := strconv.Atoi(got[i]) // jitter makes it less
					if most, _ := strconv.Atoi(c.want[i]); n <= 0 || n > most || n < most-100*i {
						t.Errorf("attempt %d was told that %q are left, want %q", i+1, got[i], c.want[i])
					}
				}
			})
		})
	}
}

// A redirect does not begin it anew, and what is over is not sent.
func TestTimeoutOfTheCallerIsKeptByRedirects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &served{base: func(_ int, r *http.Request) (*http.Response, error) {
			<-time.After(time.Second)
			return answer(307, "Location", r.URL.Path+"x"), nil
		}}
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://service.example/x", http.NoBody)
		r.Header.Set("X-Request-Timeout", "3000")
		resp, err := (&http.Client{Transport: &retryhttp.Transport{Base: s}}).Do(r)
		if err == nil {
			resp.Body.Close()
		}
		var e *retry.Error
		if !errors.As(err, &e) || e.Reason != retry.ReasonTooLate || e.Attempts != 0 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if got := s.header("X-Request-Timeout"); !slices.Equal(got, []string{"3000", "2000", "1000"}) {
			t.Errorf("told %v", got)
		}
	})
}

// Who sleeps for too long does not send what is over.
func TestTimeoutOfTheCallerEndsInThePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &served{base: always(503)}
		slow := retry.Policy{Base: -1, Observe: func(context.Context, retry.Event) { <-time.After(2 * time.Second) }}
		_, err := post(t.Context(), &retryhttp.Transport{Base: s, Policy: slow}, "Idempotency-Key", "k", "X-Request-Timeout", "1000")
		var e *retry.Error
		var status *retryhttp.StatusError
		if !errors.As(err, &e) || e.Reason != retry.ReasonTooLate || e.Attempts != 1 || !errors.As(err, &status) || len(s.requests()) != 1 {
			t.Errorf("%v, sent %d", err, len(s.requests()))
		}
	})
}
