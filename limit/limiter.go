package limit

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/oncelib/once/internal/base/fairqueue"
	"github.com/oncelib/once/internal/base/wire"
)

// Config configures a [Limiter].
type Config struct {
	// Limit is the largest number of requests that are served at the same time. Set Limit to a number that is a little smaller than the size of the
	// connection pool that the handlers use. Default: 64.
	Limit int

	// Capacity replaces Limit by a limit that changes at run time, such as a [Pool]. Default: nil, Limit applies.
	Capacity Capacity

	// Queue is the largest number of requests that wait for a slot (the right to run). Keep Queue small, because clients give up requests that wait
	// long. Default: the value of Limit, or 64 if Capacity is set. If Queue is negative, no request waits.
	Queue int

	// Wait is the longest time that a request waits for a slot (the right to run). Default: 1 s.
	Wait time.Duration

	// Tenant returns the tenant of a request. Default: nil, all requests belong to one tenant.
	Tenant func(*http.Request) string

	// Replays is the number of extra slots for retries that come while all other slots are taken. In an extra slot, a request is only looked up, and
	// answered if it has a record (a stored answer). Replays is also the number of separate extra slots for answers from the engine's cache. If Tenant
	// is set, a tenant may take an extra slot of one kind only while more extra slots of this kind are free than the tenant holds. So a single tenant
	// gets half of the extra slots of each kind. Default: a quarter of Limit, or 16 if Capacity is set, but at least 1, and at least 2 if Tenant is set.
	// If Replays is negative, there are no extra slots.
	Replays int
}

// Capacity is a limit that changes at run time. A [Limiter] calls the methods of Capacity while the Limiter holds a lock, so the methods must
// not block or call the Limiter.
type Capacity interface {
	// Acquire takes a slot if a slot is free. The result ok reports whether Acquire has taken a slot. The function release gives the slot back. The
	// parameter useful of release is true if the request ran to its end, so that its duration may be used as a measurement.
	Acquire() (release func(useful bool), ok bool)

	// Limit returns the current number of all slots, both free and taken slots.
	Limit() int
}

// Limiter admits at most as many requests at the same time as its Config allows. Any number of handlers may share a Limiter.
type Limiter struct {
	tenant func(*http.Request) string
	wait   time.Duration
	start  time.Time

	mu       sync.Mutex
	queue    *fairqueue.Queue
	lookUps  share // slots for replays that the store is asked for
	cacheHit share // slots for replays from the engine's cache, which need no store
	state    State
}

// New returns a limiter. New panics if cfg is invalid.
func New(cfg Config) *Limiter {
	if cfg.Limit < 0 || cfg.Wait < 0 {
		panic(fmt.Sprintf("limit: New: Limit %d and Wait %v must not be negative.\nTry: leaving them out.", cfg.Limit, cfg.Wait))
	}
	if cfg.Limit == 0 {
		cfg.Limit = 64
	}
	if cfg.Queue == 0 {
		cfg.Queue = cfg.Limit
	}
	if cfg.Wait == 0 {
		cfg.Wait = time.Second
	}
	least := 2
	if cfg.Tenant == nil {
		least = 1
	}
	if cfg.Replays == 0 {
		cfg.Replays = max(least, cfg.Limit/4)
	}
	places := newShare(cfg.Replays, cfg.Tenant != nil)
	if cfg.Tenant == nil {
		cfg.Tenant = func(*http.Request) string { return "" }
	}
	l := &Limiter{tenant: cfg.Tenant, wait: cfg.Wait, start: time.Now(), lookUps: places, cacheHit: newShare(cfg.Replays, places.shared)}
	l.queue = fairqueue.New(fairqueue.Config{Limit: cfg.Limit, Queue: max(0, cfg.Queue), Wait: cfg.Wait})
	if cfg.Capacity != nil {
		l.queue.Capacity = cfg.Capacity
	}
	return l
}

// Middleware limits the requests of a handler that oncehttp does not protect. For a handler that oncehttp protects, set oncehttp.Config.Gate instead.
func (l *Limiter) Middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ticket, refused := l.admit(r, nil)
		if refused != nil {
			refused.ServeHTTP(w, r)
			return
		}
		defer l.leave(r, ticket)
		next.ServeHTTP(w, r)
	})
}

// Replay reports whether a request would be answered from its record. Call the method Cached first, because Cached also works while the database is
// down.
type Replay interface {
	// Cached reports whether the engine's cache has the stored answer. Cached sends nothing to the database.
	Cached() bool

	// Stored reports whether the engine's cache or the database has the stored answer. If the cache does not have the answer, Stored makes one look-up
	// in the database, without a transaction. The look-up is cancelled when ctx ends.
	Stored(ctx context.Context) bool
}

// Enter implements oncehttp.Gate: Enter admits the request r at once or after a wait, or refuses r. When an admitted request ends, the caller must
// call leave exactly one time.
func (l *Limiter) Enter(r *http.Request, replay Replay) (leave func(), refused *Refusal) {
	ticket, refused := l.admit(r, replay)
	if refused != nil {
		return nil, refused
	}
	return func() { l.leave(r, ticket) }, nil
}

// ticket is what a request holds while it is served.
type ticket struct {
	fairqueue.Ticket

	places *share // the share of a replay, which takes no other slot; else nil
	tenant string
}

func (l *Limiter) admit(r *http.Request, replay Replay) (ticket, *Refusal) {
	tenant := l.tenant(r)
	l.mu.Lock()
	t, ok := l.queue.Enter(l.now(), tenant)
	if ok {
		l.state.Admitted++
	}
	l.mu.Unlock()
	if ok {
		return ticket{Ticket: t}, nil
	}
	// After the queue: a replay is looked up only if no slot is free.
	if replay != nil {
		if places := l.replay(r, tenant, replay); places != nil {
			return ticket{places: places, tenant: tenant}, nil
		}
	}
	t, refused := l.await(r, tenant)
	l.mu.Lock()
	l.count(refused.Why)
	l.mu.Unlock()
	if refused.Why != fairqueue.Admitted {
		return ticket{}, refusalOf(refused)
	}
	return ticket{Ticket: t}, nil
}

// replay admits r if it is a replay and a slot for replays is free. It returns the share to which the slot belongs. A replay from
// the cache takes no slot from replays that read the store.
func (l *Limiter) replay(r *http.Request, tenant string, replay Replay) *share {
	// Cached sends nothing, so it is asked before a slot is taken.
	if replay.Cached() {
		if l.take(&l.cacheHit, tenant, func() bool { return true }) {
			return &l.cacheHit
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), l.wait)
	defer cancel()
	if l.take(&l.lookUps, tenant, func() bool { return replay.Stored(ctx) }) {
		return &l.lookUps
	}
	return nil
}

// take takes a slot if one is free, and gives it back if use returns false.
func (l *Limiter) take(places *share, tenant string, use func() bool) (ok bool) {
	l.mu.Lock()
	taken := places.take(tenant)
	l.mu.Unlock()
	if !taken {
		return false
	}
	defer func() { // gives the slot back even if use panics
		l.mu.Lock()
		defer l.mu.Unlock()
		if ok {
			l.state.Replays++
		} else {
			places.giveBack(tenant)
		}
	}()
	return use()
}

// await waits until a slot is given to r, or r is refused.
func (l *Limiter) await(r *http.Request, tenant string) (fairqueue.Ticket, fairqueue.Refusal) {
	called := make(chan fairqueue.Refusal, 1)
	w := &fairqueue.Waiter{Call: func(r fairqueue.Refusal) { called <- r }}
	wait, budget := l.wait, budget(r)
	if budget > 0 {
		wait = min(wait, budget)
	}
	l.mu.Lock()
	t, ok := l.queue.Enter(l.now(), tenant) // a slot may have become free since the first try
	refused := fairqueue.Refusal{}
	if !ok {
		refused = l.queue.Wait(l.now(), tenant, budget, w)
	}
	l.mu.Unlock()
	if ok || refused.Why != fairqueue.Admitted {
		return t, refused
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	// A Capacity gives no signal when it grows, so each waiting request looks for free slots.
	look := time.NewTicker(wait/looks + 1)
	defer look.Stop()
	for {
		select {
		case <-look.C:
			l.mu.Lock()
			l.queue.Serve(l.now())
			l.mu.Unlock()
			continue
		case refused = <-called:
		case <-timer.C:
			refused = l.quit(w, called)
		case <-r.Context().Done():
			refused = l.quit(w, called)
		}
		return w.Ticket, refused
	}
}

// looks is how often a waiting request looks for free slots, in the longest time that it waits.
const looks = 10

// quit ends the waiting of w.
func (l *Limiter) quit(w *fairqueue.Waiter, called <-chan fairqueue.Refusal) fairqueue.Refusal {
	l.mu.Lock()
	refused, ok := l.queue.Quit(l.now(), w)
	l.mu.Unlock()
	if !ok {
		// It was called at this very moment, and the slot that it was given must not be lost.
		return <-called
	}
	return refused
}

func (l *Limiter) leave(r *http.Request, t ticket) {
	if t.places != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		t.places.giveBack(t.tenant)
		return
	}
	// The duration of a request that was broken off says nothing about the server.
	useful := r.Context().Err() == nil
	l.mu.Lock()
	l.queue.Leave(l.now(), t.Ticket, useful)
	l.mu.Unlock()
}

func (l *Limiter) now() time.Duration { return time.Since(l.start) }

// budget returns how long the client of r still waits, or 0 if that is not known.
func budget(r *http.Request) time.Duration {
	d, _ := wire.Timeout(r.Header) // a malformed header counts as none
	d = max(0, d)
	if deadline, ok := r.Context().Deadline(); ok {
		if left := max(1, time.Until(deadline)); d == 0 || left < d {
			d = left
		}
	}
	return d
}
