package retryhttp_test

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/retryhttp"
)

// limiter lets rate requests a second pass: at most burst at once, or, if it counts in
// windows, so many in each second.
type limiter struct {
	rate, burst float64
	windows     bool

	mu     sync.Mutex
	tokens float64
	last   time.Time
}

func (l *limiter) allow() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	switch passed := now.Sub(l.last).Seconds(); {
	case l.last.IsZero(), l.windows && passed >= 1:
		l.tokens, l.last = l.burst, now
	case !l.windows:
		l.tokens, l.last = min(l.burst, l.tokens+passed*l.rate), now
	}
	if l.tokens < 1 {
		return false
	}
	l.tokens--
	return true
}

// Many workers share the quota of an API. Each of them is refused now and then, and told
// when to come back; all of their calls succeed, and few requests are refused.
func TestRateLimit(t *testing.T) {
	const workers, calls = 50, 500
	for name, l := range map[string]*limiter{
		"100 at once": {rate: 100, burst: 100},
		"50 at once":  {rate: 100, burst: 50},
		"windows":     {rate: 100, burst: 100, windows: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var good, next, refused atomic.Int64
				s := &served{base: func(int, *http.Request) (*http.Response, error) {
					<-time.After(2 * ms)
					if l.allow() {
						return answer(200), nil
					}
					refused.Add(1)
					return answer(429, "Retry-After", "1"), nil
				}}
				rt := &retryhttp.Transport{Base: s, Policy: retry.Policy{Budget: &retry.Budget{}}}
				var all sync.WaitGroup
				for range workers {
					all.Go(func() {
						for next.Add(1) <= calls {
							if get(t.Context(), rt) == http.StatusOK {
								good.Add(1)
							}
						}
					})
				}
				all.Wait()
				least := calls
				if l.burst < workers*2 { // which is harder than the workers' first moment: chance may end one in a hundred
					least = calls * 99 / 100
				}
				if sent := len(s.requests()); good.Load() < int64(least) || sent > calls*3/2 || refused.Load() < workers {
					t.Errorf("%d of %d calls succeed, with %d requests, of which %d were refused", good.Load(), calls, sent, refused.Load())
				}
			})
		})
	}
}

// get returns the status of the answer, 0 if there is none.
func get(ctx context.Context, rt http.RoundTripper) int {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://service.example", nil)
	if err != nil {
		return 0
	}
	resp, err := rt.RoundTrip(r)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// What a rate limit refuses is paid for by itself: by five times Burst, and by a retry for
// each success. So other retries are not short of money, and a server that refuses
// everything is left alone.
func TestRateLimitHasItsOwnBudget(t *testing.T) {
	for _, c := range []struct {
		header string
		left   float64
		sent   int
	}{
		{"1", 10, 100 + 50},
		{"", 0, 100 + 20}, // it does not say when to come back
	} {
		synctest.Test(t, func(t *testing.T) {
			b := &retry.Budget{}
			s := &served{base: func(int, *http.Request) (*http.Response, error) {
				if c.header == "" {
					return answer(429), nil
				}
				return answer(429, "Retry-After", c.header), nil
			}}
			rt := &retryhttp.Transport{Base: s, Policy: retry.Policy{Budget: b}}
			for range 100 {
				if status := get(t.Context(), rt); status != http.StatusTooManyRequests {
					t.Fatal(status)
				}
			}
			if n := len(s.requests()); n != c.sent || b.State().Left != c.left {
				t.Errorf("Retry-After %q: %d requests, %+v", c.header, n, b.State())
			}
			b.Answered(b.Begin(0))
			s.base = func(n int, _ *http.Request) (*http.Response, error) {
				if n == c.sent+1 {
					return answer(429, "Retry-After", "1"), nil
				}
				return answer(200), nil
			}
			if status := get(t.Context(), rt); status != http.StatusOK {
				t.Errorf("Retry-After %q: a success does not pay for a retry: %d", c.header, status)
			}
		})
	}
}
