package retryhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/retryhttp"
)

// A server hangs for a moment: of n parallel calls the first attempt of h is never
// answered. That the others of the same moment are as silent says nothing about what comes
// next. So as many are retried as the budget pays for.
func TestBlipIsRetriedWithinTheBudget(t *testing.T) {
	testenv.Prove(t)
	var failed []string
	for _, burst := range []int{10, 40} {
		for _, n := range []int{1, 2, 3, 5, 10, 11, 20, 50, 100, 1000} {
			for _, h := range []int{n, n / 2, min(n, 10), 1} {
				for _, spread := range []time.Duration{0, 300 * ms} { // in which they begin
					if h == 0 {
						continue
					}
					synctest.Test(t, func(t *testing.T) {
						b := &retry.Budget{Burst: burst}
						rt := &retryhttp.Transport{
							Dialect: retryhttp.Dialect{Announce: true},
							Policy:  retry.Policy{Timeout: time.Second, Budget: b},
							Base: base(func(_ int, r *http.Request) (*http.Response, error) {
								i, _ := strconv.Atoi(r.Header.Get("Idempotency-Key"))
								if retryhttp.ResendCount(r.Context()) == 0 && i%n*h/n != (i%n+1)*h/n { // h of n, evenly
									return hangs(r)
								}
								<-time.After(5 * ms)
								return answer(200), nil
							}),
						}
						var good atomic.Int32
						var all sync.WaitGroup
						for i := range n {
							all.Go(func() {
								<-time.After(spread * time.Duration(i) / time.Duration(n))
								if resp, err := post(context.WithoutCancel(t.Context()), rt, "Idempotency-Key", strconv.Itoa(i)); err == nil && resp.StatusCode == http.StatusOK {
									good.Add(1)
								}
							})
						}
						all.Wait()
						saved, want := int(good.Load())-(n-h), min(h, burst)
						if saved*10 < 9*want {
							failed = append(failed, fmt.Sprintf("burst %d, %d of %d hang, begun within %v: %d succeed, want %d", burst, h, n, spread, saved, want))
						}
					})
				}
			}
		}
	}
	for _, f := range failed {
		t.Error(f)
	}
}
