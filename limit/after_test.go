package limit_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/limit"
)

// Who comes back when he was told to finds room. All who were refused at one moment do.
func TestRetryAfterIsHonest(t *testing.T) {
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			l := limit.New(limit.Config{Limit: 10, Queue: 40})
			h := l.Middleware(work(100 * ms)) // 100 a second
			if a := ask(t.Context(), h, ""); a.status != http.StatusNoContent {
				t.Fatalf("%+v", a)
			}
			rnd := rand.New(rand.NewPCG(seed, 1))
			var wg sync.WaitGroup
			var mu sync.Mutex
			at, refused, again := map[time.Duration]int{}, 0, 0
			for range 450 {
				jitter := time.Duration(rnd.Int64N(int64(time.Second)))
				wg.Go(func() {
					a := ask(t.Context(), h, "")
					if a.status == http.StatusNoContent {
						return
					}
					mu.Lock()
					refused++
					at[a.after]++
					mu.Unlock()
					after(a.after + jitter)
					if b := ask(t.Context(), h, ""); b.status != http.StatusNoContent {
						mu.Lock()
						again++
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			if refused != 400 || again > 0 {
				t.Errorf("%d refused, %d of them again when they came as told", refused, again)
			}
			for s, n := range at {
				if n > 100 {
					t.Errorf("%d were told to come after %v: 100 can be served in a second", n, s)
				}
			}
		})
	}
}

// Not earlier than it takes, also when nothing goes on any more.
func TestRetryAfterOfAStuckServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.New(limit.Config{Limit: 1, Queue: -1})
		if a := ask(t.Context(), l.Middleware(work(10*ms)), ""); a.status != http.StatusNoContent {
			t.Fatalf("%+v", a)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { ask(ctx, l.Middleware(work(time.Hour)), "") })
		after(20 * time.Second)
		if a := ask(t.Context(), l.Middleware(work(0)), ""); a.status != http.StatusServiceUnavailable || a.after < 20*time.Second {
			t.Errorf("after 20 s without an end: %+v", a)
		}
		cancel()
		wg.Wait()
		if took := l.State().Took; took != 10*ms {
			t.Errorf("what was broken off is taken for what it takes: %v", took)
		}
	})
}
