package hookrelay

import (
	"context"
	"fmt"
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
		seen := newEvents()
		g.start(t, nil, webhook.RelayConfig{Observer: seen})
		for i := range hanging {
			g.to.waitFor(t, fmt.Sprint("hangs", i), 1)
		}
		for i := range each {
			g.send(t, "healthy", fmt.Sprint("h", i), 1)
			g.to.waitFor(t, "healthy", i+1)
		}
		g.to.waitFor(t, "flooded", backlog)
		for i := range failing {
			// Five failures, and one request for each second since: not one for each delivery at once.
			if n := len(g.to.arrived(fmt.Sprint("fails", i))); n > 8 {
				t.Errorf("an endpoint that fails has got %d requests of 10 events", n)
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

// TestHalfHangs: more requests hang than there are places, and those that are slow give theirs back: the others get all of their events meanwhile.
func TestHalfHangs(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	harness.Each(t, []string{harness.Pgx}, func(t *testing.T, kind string) {
		const hanging, healthy, each = 1200, 50, 5 // 1,024 places
		g := newFixture(t, kind)
		var list []endpoint
		for i := range hanging {
			list = append(list, endpoint{id: int64(1000 + i), uid: fmt.Sprint("hangs", i), tenant: "hangs"})
			g.to.set(fmt.Sprint("hangs", i), g.to.hangs)
		}
		for i := range healthy {
			list = append(list, endpoint{id: int64(1 + i), uid: fmt.Sprint("healthy", i), tenant: "healthy"})
		}
		g.endpoints(t, list...)
		g.send(t, "hangs", "x", 2)
		g.start(t, nil, webhook.RelayConfig{})
		g.to.wait(t, "all that hang", func() bool { return len(g.to.got) >= hanging })
		g.send(t, "healthy", "h", each)
		for i := range healthy {
			g.to.waitFor(t, fmt.Sprint("healthy", i), each)
		}
		g.to.mu.Lock()
		defer g.to.mu.Unlock()
		for i := range hanging {
			if uid := fmt.Sprint("hangs", i); g.to.underWay[uid] != 1 {
				t.Fatalf("%d requests hang at %s", g.to.underWay[uid], uid)
			}
		}
	})
}
