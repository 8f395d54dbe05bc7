package limit_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/waits"
	"github.com/oncelib/once/limit"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

const window = time.Second

// waited tells p of n calls that began just now and have waited for a connection.
func waited(p *limit.Pool, n int, wait time.Duration) {
	for range n {
		p.Observe(context.Background(), once.Event{Type: once.EventFinished, Acquire: wait})
	}
}

func wantPlaces(t *testing.T, p *limit.Pool, when string, want int) {
	t.Helper()
	if n := p.Limit(); n != want {
		t.Errorf("%s: %d places, want %d", when, n, want)
	}
}

// TestPoolBound: one call of a hundred may wait longer than the bound, and two may not.
func TestPoolBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := limit.NewPool(limit.PoolConfig{Limit: 16, Acquire: 50 * ms, Window: window})
		waited(p, 1, time.Hour)
		wantPlaces(t, p, "the first call has opened a connection", 16)
		waited(p, 199, 50*ms)
		waited(p, 1, 51*ms)
		wantPlaces(t, p, "1 %", 16)
		waited(p, 1, 51*ms)
		wantPlaces(t, p, "more than 1 %", 12)
		waited(p, 1, 51*ms)
		wantPlaces(t, p, "those that have waited together", 12)
		for _, e := range []once.Event{{Type: once.EventFinished}, {Type: once.EventClaimed, Acquire: time.Hour}, {Type: once.EventFinished, Acquire: time.Hour, Total: time.Hour}} {
			for range 10 {
				p.Observe(t.Context(), e)
			}
			wantPlaces(t, p, "a call that says nothing about these places", 12)
		}
		waited(p, 1, 51*ms)
		wantPlaces(t, p, "they count again", 9)
	})
}

// TestPoolRecovers: with one place left, that place is given, so that the pool is seen to recover.
func TestPoolRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := limit.NewPool(limit.PoolConfig{Limit: 16, Acquire: 50 * ms, Window: window})
		for range 20 {
			waited(p, 2, time.Second)
			after(ms)
		}
		wantPlaces(t, p, "all wait", 1)
		for range 3 {
			release, ok := p.Acquire()
			if !ok {
				t.Fatal("no place is left that could show that the pool has recovered")
			}
			if _, second := p.Acquire(); second {
				t.Error("a second place")
			}
			release(true)
		}
		grown := []int{}
		for p.Limit() < 16 && len(grown) < 100 {
			after(window)
			waited(p, 1, ms)
			grown = append(grown, p.Limit())
		}
		if len(grown) != 11 || grown[0] != 2 {
			t.Errorf("places in each window: %v", grown)
		}
		after(window)
		waited(p, 1, ms)
		wantPlaces(t, p, "all are there", 16)
	})
}

// TestPoolDoesNotSwing: between half of the bound and the bound the places stay as they are.
func TestPoolDoesNotSwing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := limit.NewPool(limit.PoolConfig{Limit: 16, Acquire: 50 * ms, Window: window})
		waited(p, 2, 51*ms)
		wantPlaces(t, p, "fewer", 12)
		for range 20 {
			after(window / 2)
			waited(p, 10, 40*ms)
		}
		wantPlaces(t, p, "waits between the bounds", 12)
		after(2 * window)
		waited(p, 1, 25*ms)
		wantPlaces(t, p, "short waits", 15)
		waited(p, 10, ms)
		wantPlaces(t, p, "the next places come a window later", 15)
	})
}

// TestPoolForgets: what is older than the window does not count.
func TestPoolForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := limit.NewPool(limit.PoolConfig{Limit: 16, Acquire: 50 * ms, Window: window})
		for range 10 {
			waited(p, 1, time.Minute)
			after(window * 9 / 8)
		}
		wantPlaces(t, p, "one in each window", 16)
		waited(p, 2, time.Minute)
		wantPlaces(t, p, "two in one window", 12)
		after(window)
		waited(p, 1, time.Minute)
		after(window / 2)
		waited(p, 50, ms)
		wantPlaces(t, p, "one of 51 has waited", 12)
		after(window/2 + ms)
		waited(p, 1, ms)
		wantPlaces(t, p, "it is forgotten", 15)
	})
}

// TestPoolLeavesConnectionsToOthers: with the statistics of the pool, there are never more places than
// connections that others have left.
func TestPoolLeavesConnectionsToOthers(t *testing.T) {
	inUse, most := 0, 8
	p := limit.NewPool(limit.PoolConfig{Limit: 16, Stat: func() (int, int) { return inUse, most }})
	wantPlaces(t, p, "a pool of 8", 8)
	var leave []func(bool)
	for range 8 {
		release, ok := p.Acquire()
		if !ok {
			t.Fatalf("%d places", len(leave))
		}
		leave = append(leave, release)
	}
	if _, ok := p.Acquire(); ok {
		t.Error("a place without a connection")
	}
	inUse = 8
	wantPlaces(t, p, "all connections are those of the requests", 8)
	inUse = 11 // others wait for them as well, or the pool was made smaller
	wantPlaces(t, p, "three are used by others", 5)
	for _, release := range leave {
		release(true)
	}
	inUse = 8
	wantPlaces(t, p, "others have all", 1)
	most = 0
	wantPlaces(t, p, "a pool without a bound", 16)
}

// TestWaitingRequestsTakeFreedConnections: a report gives its connections back while the running request hangs. A request that waits is served,
// although no request begins or ends meanwhile.
func TestWaitingRequestsTakeFreedConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inUse atomic.Int64
		pool := limit.NewPool(limit.PoolConfig{Stat: func() (int, int) { return int(inUse.Load()), 8 }})
		l := limit.New(limit.Config{Capacity: pool})
		h := l.Middleware(work(time.Hour))
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { ask(ctx, h, "") })
		synctest.Wait()
		inUse.Store(8) // the request has one connection, and the report seven
		wg.Go(func() {
			if a := ask(t.Context(), l.Middleware(work(0)), ""); a.status != http.StatusNoContent {
				t.Errorf("%+v", a)
			}
		})
		synctest.Wait()
		if s := l.State(); s.Running != 1 || s.Waiting != 1 || s.Capacity != 1 {
			t.Errorf("vacuous: %+v", s)
		}
		inUse.Store(1)
		after(time.Minute)
		cancel()
		wg.Wait()
	})
}

// pooled is a store with few connections, each of which is busy for as long as it is used.
type pooled struct {
	*memstore.Store

	free chan struct{}
	busy time.Duration
}

func (p *pooled) acquire(w *waits.Waits) {
	began := time.Now()
	p.free <- struct{}{}
	if w != nil {
		w.Acquire += time.Since(began) + 1 // no time passes here but that which is waited for
	}
}

func (p *pooled) Begin(ctx context.Context, opts store.BeginOptions) (store.Transaction[*memstore.Tx], store.Record, error) {
	p.acquire(opts.Waits)
	defer func() { <-p.free }()
	after(p.busy)
	return p.Store.Begin(ctx, opts)
}

func (p *pooled) Read(ctx context.Context, id store.ID) (store.Record, error) {
	p.acquire(nil)
	defer func() { <-p.free }()
	after(p.busy / 20)
	return p.Store.Read(ctx, id)
}

// TestPoolShedsNewWorkAndAnswersReplays: a herd on a pool of few connections. Soon calls wait no longer for
// a connection than the bound, what is too much is refused with a time to come back, and every replay is answered.
func TestPoolShedsNewWorkAndAnswersReplays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const connections, clients = 4, 60
		pool := limit.NewPool(limit.PoolConfig{Limit: 64, Acquire: 50 * ms, Window: window})
		s := &pooled{Store: memstore.New(), free: make(chan struct{}, connections), busy: 20 * ms}
		var mu sync.Mutex
		var slow, calls int // late in the storm
		began := time.Now()
		watch := observe(func(e once.Event) {
			if e.Type == once.EventFinished && time.Since(began) > 10*time.Second && e.Acquire > 0 {
				mu.Lock()
				defer mu.Unlock()
				if calls++; e.Acquire > 100*ms {
					slow++
				}
			}
		})
		engine := once.New[*memstore.Tx](s, once.Config{Observer: once.Observers(pool, watch)})
		l := limit.New(limit.Config{Capacity: pool, Queue: 4, Wait: 500 * ms})
		h := oncehttp.Middleware(engine, oncehttp.Config{Principal: oncehttp.SharedPrincipal(), Gate: l})(
			http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if err := oncehttp.Tx[*memstore.Tx](r.Context()).Put("k", "v"); err != nil {
					oncehttp.Fail(w, r, err)
					return
				}
				w.WriteHeader(http.StatusCreated)
			}))
		if a := ask(t.Context(), h, "", "Idempotency-Key", "done"); a.status != http.StatusCreated {
			t.Fatalf("%+v", a)
		}
		var wg sync.WaitGroup
		served, refused, replays := 0, 0, 0
		for range clients {
			wg.Go(func() {
				for time.Since(began) < 20*time.Second {
					a := ask(t.Context(), h, "", "Idempotency-Key", once.NewKey(), "Once-Attempt", "1") // which needs no look-up to be refused
					mu.Lock()
					switch {
					case a.status == http.StatusCreated:
						served++
					case a.status == http.StatusServiceUnavailable && a.after >= time.Second && strings.Contains(a.body, limit.CodeOverloaded):
						refused++
					default:
						t.Errorf("%+v", a)
					}
					mu.Unlock()
					after(25 * ms)
				}
			})
		}
		wg.Go(func() {
			for time.Since(began) < 20*time.Second {
				if a := ask(t.Context(), h, "", "Idempotency-Key", "done", "Once-Attempt", "2"); a.status != http.StatusCreated {
					t.Errorf("a replay: %+v", a)
				}
				replays++
				after(50 * ms)
			}
		})
		wg.Wait()
		t.Logf("%d served, %d refused, %d replays; late in the storm %d of %d calls have waited for long; %d places", served, refused, replays, slow, calls, pool.Limit())
		if served < 3000 || refused < served || replays < 100 || calls < 1000 || slow*100 > calls { // 4000 is all that there can be
			t.Error("the pool was drowned, or left idle")
		}
		for range 60 { // the storm is over
			after(window)
			ask(t.Context(), h, "", "Idempotency-Key", once.NewKey())
		}
		wantPlaces(t, pool, "after the storm", 64)
	})
}

type observe func(once.Event)

func (o observe) Observe(_ context.Context, e once.Event) { o(e) }

func TestInvalidPool(t *testing.T) {
	for _, cfg := range []limit.PoolConfig{{Limit: -1}, {Acquire: -1}, {Window: -1}} {
		func() {
			defer func() {
				if s, _ := recover().(string); !strings.Contains(s, "Try: ") {
					t.Errorf("%+v: %q", cfg, s)
				}
			}()
			limit.NewPool(cfg)
		}()
	}
}
