package limit_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once/limit"
)

// A real server that is asked for five times what it can do goes on doing what it can,
// answers those it serves in time, and refuses the others quickly.
func TestOverload(t *testing.T) {
	l := limit.New(limit.Config{Limit: 4, Queue: 4, Wait: 500 * ms})
	server := httptest.NewServer(l.Middleware(work(10 * ms))) // 400 a second
	defer server.Close()
	client := server.Client()
	client.Transport.(*http.Transport).MaxIdleConnsPerHost = 40
	begin := time.Now()
	end := begin.Add(time.Second)
	var wg sync.WaitGroup
	var mu sync.Mutex
	served, refused := 0, 0
	var slowest time.Duration
	for range 40 {
		wg.Go(func() {
			for time.Now().Before(end) {
				start := time.Now()
				resp, err := client.Post(server.URL, "", http.NoBody)
				if err != nil {
					t.Error(err)
					return
				}
				resp.Body.Close()
				mu.Lock()
				switch later := resp.Header.Get("Retry-After"); {
				case resp.StatusCode == http.StatusNoContent:
					served++
					slowest = max(slowest, time.Since(start))
				case resp.StatusCode == http.StatusServiceUnavailable && later != "" && later != "0":
					refused++
				default:
					t.Errorf("%d, Retry-After %q", resp.StatusCode, later)
				}
				mu.Unlock()
				after(20 * ms)
			}
		})
	}
	wg.Wait()
	t.Logf("%d served, the slowest in %v; %d refused", served, slowest, refused)
	if served < 100 || refused == 0 || slowest > 2*time.Second {
		t.Errorf("%d served, the slowest in %v; %d refused", served, slowest, refused)
	}
	if s := l.State(); s.Running != 0 || s.Waiting != 0 || int(s.Admitted) != served {
		t.Errorf("%+v", s)
	}
}
