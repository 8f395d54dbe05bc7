package limit_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/oncelib/once"
	"github.com/oncelib/once/limit"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
)

// cachedService is service with a cache, and a principal for each tenant.
func cachedService(s *counting, l *limit.Limiter, end <-chan struct{}) http.Handler {
	engine := once.New[*memstore.Tx](s, once.Config{Cache: 1 << 20})
	return oncehttp.Middleware(engine, oncehttp.Config{Principal: tenant, Gate: l})(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Slow") != "" {
				<-end
			}
			w.WriteHeader(http.StatusCreated)
		}))
}

// TestCachedReplaysPassABusyTenant: while the store is down and one tenant has its look-ups hang
// there, the cache's answers go out, to that tenant as well, and another tenant's look-ups begin.
func TestCachedReplaysPassABusyTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.New(limit.Config{Limit: 1, Queue: -1, Replays: 4, Tenant: tenant})
		s := &counting{Store: memstore.New()}
		end := make(chan struct{})
		h := cachedService(s, l, end)
		for _, name := range []string{"busy", "other"} {
			if a := ask(t.Context(), h, name, "Idempotency-Key", "done"); a.status != http.StatusCreated {
				t.Fatalf("%+v", a)
			}
		}
		var all sync.WaitGroup
		all.Go(func() { ask(t.Context(), h, "busy", "Idempotency-Key", "slow", "Slow", "1") })
		synctest.Wait()
		for range 2 { // what is taken is given back
			s.hold = make(chan struct{})
			before := s.read.Load()
			for i := range 20 {
				all.Go(func() { ask(t.Context(), h, "busy", "Idempotency-Key", fmt.Sprint("new", i)) })
			}
			synctest.Wait()
			if n := s.read.Load() - before; n != 2 {
				t.Errorf("the busy tenant has %d of 4 look-ups", n)
			}
			for _, name := range []string{"other", "busy"} {
				if a := ask(t.Context(), h, name, "Idempotency-Key", "done"); a.status != http.StatusCreated || a.took != 0 {
					t.Errorf("a cached replay of %s: %+v", name, a)
				}
			}
			if n := s.read.Load() - before; n != 2 {
				t.Errorf("cached replays have asked the store %d times", n-2)
			}
			for i, name := range []string{"other", "third"} {
				all.Go(func() { ask(t.Context(), h, name, "Idempotency-Key", "new") })
				synctest.Wait()
				if n := s.read.Load() - before; n != int64(3+i) {
					t.Errorf("%d look-ups, after one more of %s", n, name)
				}
			}
			if a := ask(t.Context(), h, "fourth", "Idempotency-Key", "new"); a.status != http.StatusServiceUnavailable || s.read.Load()-before != 4 {
				t.Errorf("a fifth look-up: %+v", a)
			}
			close(s.hold)
			synctest.Wait()
		}
		close(end)
		all.Wait()
		if state := l.State(); state.Replays != 4 || state.Running != 0 {
			t.Errorf("%+v", state)
		}
	})
}

// TestCachedReplaysAreLimited: one tenant with slow bodies does not take all their places.
func TestCachedReplaysAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.New(limit.Config{Limit: 1, Queue: -1, Replays: 4, Tenant: tenant})
		enter := func(name string) (leave func(), ok bool) {
			r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "/", strings.NewReader(""))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Tenant", name)
			leave, refused := l.Enter(r, cached{})
			return leave, refused == nil
		}
		if _, ok := enter("any"); !ok { // takes the only place
			t.Fatal("no place")
		}
		var leave []func()
		for i := range 10 {
			l, ok := enter("slow")
			if ok != (i < 2) {
				t.Errorf("cached replay %d: %v", i, ok)
			}
			if ok {
				leave = append(leave, l)
			}
		}
		if _, ok := enter("other"); !ok {
			t.Error("another tenant has no place")
		}
		for _, l := range leave {
			l()
		}
		if _, ok := enter("slow"); !ok {
			t.Error("a place was not given back")
		}
	})
}

type cached struct{}

func (cached) Cached() bool                { return true }
func (cached) Stored(context.Context) bool { return false }
