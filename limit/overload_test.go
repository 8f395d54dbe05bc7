package limit_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelib/once/limit"
)

// A real server that is asked for far more than it can do serves as many at the same time
// as it may, those who are served do not wait long, and the others know when to come.
func TestOverloadServesUpToTheLimit(t *testing.T) {
	const places, clients, requests = 4, 40, 20
	l := limit.New(limit.Config{Limit: places, Queue: 4, Wait: 500 * ms})
	var inside, most atomic.Int64
	full, shed := make(chan struct{}), make(chan struct{}) // none leaves before both have been seen, however slow the machine is
	isFull, isShed := sync.OnceFunc(func() { close(full) }), sync.OnceFunc(func() { close(shed) })
	slow := work(10 * ms)
	server := httptest.NewServer(l.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := inside.Add(1); n > most.Load() {
			most.Store(n)
			if n == places {
				isFull()
			}
		}
		defer inside.Add(-1)
		<-full
		<-shed
		slow.ServeHTTP(w, r)
	})))
	client := server.Client()
	client.Transport.(*http.Transport).MaxIdleConnsPerHost = clients
	var wg sync.WaitGroup
	var mu sync.Mutex
	served, refused := 0, 0
	var slowest time.Duration
	for range clients {
		wg.Go(func() {
			for range requests {
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
					isShed()
				default:
					t.Errorf("%d, Retry-After %q", resp.StatusCode, later)
				}
				mu.Unlock()
				after(5 * ms)
			}
		})
	}
	wg.Wait()
	server.Close() // waits for the handlers
	t.Logf("%d served, the slowest in %v; %d refused", served, slowest, refused)
	if served < 2*places || refused == 0 || served+refused != clients*requests || most.Load() != places || slowest > 30*time.Second {
		t.Errorf("%d served, %d at the same time, the slowest in %v; %d refused", served, most.Load(), slowest, refused)
	}
	if s := l.State(); s.Running != 0 || s.Waiting != 0 || int(s.Admitted) != served {
		t.Errorf("%+v", s)
	}
}
