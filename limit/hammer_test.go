package limit_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/limit"
)

// However clients come and go, no place is lost and none is given twice. The clients run at
// the same time; how long they wait does not depend on the machine.
func TestNoPlaceIsLostOrGivenTwice(t *testing.T) { synctest.Test(t, testHammer) }

func testHammer(t *testing.T) {
	const places = 3
	l := limit.New(limit.Config{Limit: places, Queue: 8, Wait: 2 * ms, Tenant: tenant})
	var inside, most atomic.Int64
	h := l.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n := inside.Add(1)
		defer inside.Add(-1)
		if n > places {
			most.Store(n)
		}
		select {
		case <-time.After(time.Duration(rand.IntN(1000)) * time.Microsecond):
		case <-r.Context().Done():
		}
	}))
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 0))
			for range 50 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(4000))*time.Microsecond)
				ask(ctx, h, string(rune('a'+random.IntN(5))))
				cancel()
			}
		})
	}
	wg.Wait()
	s := l.State()
	if most.Load() > 0 || s.Running != 0 || s.Waiting != 0 || s.Admitted+s.Exceeded+s.Full+s.Late != 32*50 {
		t.Errorf("%d were served at the same time; %+v", most.Load(), s)
	}
	if s.Admitted == 0 || s.Exceeded == 0 || s.Late == 0 {
		t.Errorf("vacuous: %+v", s)
	}
}
