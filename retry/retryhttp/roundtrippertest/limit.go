package roundtrippertest

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// limitChecks are about healthy servers with a rate limit, which say when to try again.
var limitChecks = []Check{
	{"RateLimit", "50 workers call an API that answers 429 with Retry-After to more than 100 requests a second: every call succeeds, with fewer than two requests per call on average", (*lab).rateLimit},
}

func (l *lab) rateLimit() error {
	const workers, calls, rate = 50, 250, 100
	var mu sync.Mutex
	tokens, last := float64(rate), time.Now()
	allow := func() bool {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		tokens, last = min(rate, tokens+now.Sub(last).Seconds()*rate), now
		if tokens < 1 {
			return false
		}
		tokens--
		return true
	}
	var refused atomic.Int32
	s := l.serve(func(_ int, w http.ResponseWriter, _ *http.Request) {
		if !allow() {
			refused.Add(1)
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	c := l.client()
	var good, next atomic.Int32
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for next.Add(1) <= calls {
				if a, err := l.do(l.ctx, c, http.MethodGet, s.URL, ""); err == nil && a.status == http.StatusOK {
					good.Add(1)
				}
			}
		})
	}
	all.Wait()
	sent := len(s.arrivals())
	switch {
	case good.Load() != calls || sent >= 2*calls:
		return fmt.Errorf("%d of %d calls have succeeded, with %d requests", good.Load(), calls, sent)
	case refused.Load() == 0:
		return errors.New("the server has refused no request: this check proves nothing")
	}
	return nil
}
