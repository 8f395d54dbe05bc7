package hookrelay

import (
	"context"
	"fmt"
	"math/bits"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/webhook"
)

// run runs a relay until the function that it returns is called.
func run(t *testing.T, r *webhook.Relay) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(2 * patience):
			t.Error("a relay does not end")
		}
	})
	t.Cleanup(stop)
	return stop
}

// TestSickEndpoints: while some endpoints hang, fail, are gone, or have a backlog, each with more deliveries than it gets, a healthy one gets each of its events, one after the other,
// before any request that hangs has ended.
func TestSickEndpoints(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) {
		const hanging, failing, backlog, each = 60, 20, 300, 30
		g := newFixture(t, kind)
		list := []endpoint{{id: 1, uid: "healthy", tenant: "healthy"}, {id: 2, uid: "flooded", tenant: "flooded"}, {id: 3, uid: "gone", tenant: "gone"}}
		for i := range hanging {
			list = append(list, endpoint{id: int64(10 + i), uid: fmt.Sprint("hangs", i), tenant: "hangs"})
			g.to.set(fmt.Sprint("hangs", i), g.to.hangs)
		}
		for i := range failing {
			list = append(list, endpoint{id: int64(200 + i), uid: fmt.Sprint("fails", i), tenant: "fails"})
			g.to.set(fmt.Sprint("fails", i), fails(http.StatusInternalServerError))
		}
		g.to.set("gone", fails(http.StatusGone))
		g.endpoints(t, list...)
		for _, tenant := range []string{"hangs", "fails", "gone"} {
			g.send(t, tenant, tenant, 10)
		}
		g.send(t, "flooded", "flooded", backlog)
		seen, began := newEvents(), time.Now()
		g.start(t, nil, webhook.RelayConfig{Observer: seen, Timeout: 10 * patience})
		for i := range hanging {
			g.to.waitFor(t, fmt.Sprint("hangs", i), 1)
		}
		for i := range each {
			g.send(t, "healthy", fmt.Sprint("h", i), 1)
			g.to.waitFor(t, "healthy", i+1)
		}
		g.to.waitFor(t, "flooded", backlog)
		for i := range failing {
			n := len(g.to.arrived(fmt.Sprint("fails", i)))
			// Five failures, and then one request after 1, 2, 4, ... seconds: not one for each delivery at once.
			if most := 5 + bits.Len(uint(time.Since(began).Seconds())+1); n > most {
				t.Errorf("an endpoint that fails has got %d requests of 10 events, at most %d are expected", n, most)
			}
		}
		g.to.mu.Lock()
		defer g.to.mu.Unlock()
		for i := range hanging {
			if uid := fmt.Sprint("hangs", i); g.to.counts[uid] != 1 || g.to.underWay[uid] != 1 {
				t.Errorf("%s has got %d requests, %d of which are on their way", uid, g.to.counts[uid], g.to.underWay[uid])
			}
		}
	})
}

// TestHalfHangs: twice as many requests hang as there are places, and the healthy endpoints are the last ones in the queue. Requests that are slow give their places back, again and
// again, so each healthy endpoint gets its events, one after the other, while every request that hangs still hangs. None of them is released before, or ends by its timeout.
func TestHalfHangs(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	harness.Each(t, []string{harness.Pgx}, func(t *testing.T, kind string) {
		const hanging, healthy, each = 2000, 50, 5 // 768 places for endpoints that were never tried
		g := newFixture(t, kind)
		var list []endpoint
		for i := range hanging {
			list = append(list, endpoint{id: int64(1 + i), uid: fmt.Sprint("hangs", i), tenant: "hangs"})
			g.to.set(fmt.Sprint("hangs", i), g.to.hangs)
		}
		for i := range healthy {
			list = append(list, endpoint{id: int64(10_000 + i), uid: fmt.Sprint("healthy", i), tenant: "healthy"})
		}
		g.endpoints(t, list...)
		g.send(t, "hangs", "x", 2)
		g.send(t, "healthy", "h0", 1)
		g.start(t, nil, webhook.RelayConfig{Timeout: 10 * patience})
		for n := range each {
			if n > 0 {
				g.send(t, "healthy", fmt.Sprint("h", n), 1)
			}
			for i := range healthy {
				g.to.waitFor(t, fmt.Sprint("healthy", i), n+1)
			}
		}
		g.to.wait(t, "all that hang", func() bool { return len(g.to.got) >= hanging+healthy*each })
		g.to.mu.Lock()
		defer g.to.mu.Unlock()
		for i := range hanging {
			if uid := fmt.Sprint("hangs", i); g.to.counts[uid] != 1 || g.to.underWay[uid] != 1 {
				t.Fatalf("%s has got %d requests, %d of which are on their way", uid, g.to.counts[uid], g.to.underWay[uid])
			}
		}
	})
}
