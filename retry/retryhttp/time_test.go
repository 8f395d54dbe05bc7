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
