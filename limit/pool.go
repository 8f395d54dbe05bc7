package limit

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/oncelib/once"
)

// PoolConfig configures a [Pool].
type PoolConfig struct {
	// Limit is the largest number of slots; each running request occupies one slot. Default: 64.
	Limit int

	// Acquire is the longest time that a call should wait for a connection of the pool. If more than 1 % of the calls in the last Window have waited
	// longer than Acquire (p99 above Acquire), Pool reduces the number of slots. If at most 1 % of the calls have waited longer than half of
	// Acquire, Pool increases the number of slots again, up to Limit. Default: 50 ms.
	Acquire time.Duration

	// Window is the time over which waits are counted. Window is also the shortest time between two increases of the number of slots. Default:
	// 2 s.
	Window time.Duration

	// Stat returns how many connections of the pool are in use, and the largest number of connections of the pool (0 means no limit). With Stat, the
	// number of slots is at most the number of connections that other code does not use. Stat must be fast, because the Limiter holds a lock while it
	// calls Stat. Stat is called one time for each request, and about ten times for a request that waits. Default: nil, the number of slots depends only
	// on the waits.
	Stat func() (inUse, most int)
}

// Pool is a [Capacity] that adapts to a connection pool. A Pool measures how long calls wait for a connection, and how many connections are in use.
// So a Limiter with a Pool refuses new work before the connection pool is overloaded.
//
//	pool := limit.NewPool(limit.PoolConfig{})
//	limiter := limit.New(limit.Config{Capacity: pool})
//	engine := once.New(s, once.Config{Observer: once.Observers(pool, once.Log(log))})
//
// Set the Pool as an observer of the engine, as in the example: the engine's events say how long calls waited for a connection. If Pool is the only
// observer, the engine still writes its default log. At least one slot always exists, because only a call that uses a connection can show that the
// pool has recovered.
type Pool struct {
	cfg   PoolConfig
	start time.Time

	mu      sync.Mutex
	places  int
	running int
	changed time.Time // when places last changed
	recent  [parts]waits
}

// parts is the number of parts of the window. The oldest part is dropped as a whole.
const parts = 8

// waits counts the calls of one part of the window.
type waits struct {
	part  int64 // the number of the part since the start of the Pool
	calls int
	half  int // calls that have waited longer than half of Acquire
	over  int // calls that have waited longer than Acquire
}

var (
	_ Capacity      = (*Pool)(nil)
	_ once.Observer = (*Pool)(nil)
)

// NewPool returns a capacity that begins with cfg.Limit slots. NewPool panics if cfg is invalid.
func NewPool(cfg PoolConfig) *Pool {
	if cfg.Limit < 0 || cfg.Acquire < 0 || cfg.Window < 0 {
		panic(fmt.Sprintf("limit: NewPool: Limit %d, Acquire %v and Window %v must not be negative.\nTry: leaving them out.", cfg.Limit, cfg.Acquire, cfg.Window))
	}
	if cfg.Limit == 0 {
		cfg.Limit = 64
	}
	if cfg.Acquire == 0 {
		cfg.Acquire = 50 * time.Millisecond
	}
	if cfg.Window == 0 {
		cfg.Window = 2 * time.Second
	}
	now := time.Now()
	return &Pool{cfg: cfg, start: now, changed: now, places: cfg.Limit}
}

// Acquire implements [Capacity].
func (p *Pool) Acquire() (release func(useful bool), ok bool) {
	inUse, most := p.stat()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running >= p.limit(inUse, most) {
		return nil, false
	}
	p.running++
	return p.release, true
}

func (p *Pool) release(bool) { // useful does not matter: the wait for a connection counts in any case
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
}

// Limit implements [Capacity].
func (p *Pool) Limit() int {
	inUse, most := p.stat()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limit(inUse, most)
}

func (p *Pool) stat() (inUse, most int) {
	if p.cfg.Stat == nil {
		return 0, 0
	}
	return p.cfg.Stat()
}

// limit returns the number of slots. It is at least 1, because only a call that uses a connection can show that connections are available again.
func (p *Pool) limit(inUse, most int) int {
	n := p.places
	if most > 0 {
		others := max(0, inUse-p.running) // each request in a slot may have a connection, or will have one soon
		n = min(n, most-others)
	}
	return max(1, n)
}

// Observe implements [once.Observer].
func (p *Pool) Observe(_ context.Context, e once.Event) {
	if e.Type != once.EventFinished || e.Acquire == 0 { // the call has used no connection
		return
	}
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Add(-e.Total).Before(p.changed) {
		return // it began before the last change, so it says nothing about the new number
	}
	part := int64(now.Sub(p.start) * parts / p.cfg.Window)
	w := &p.recent[part%parts]
	if w.part != part {
		*w = waits{part: part}
	}
	w.calls++
	if e.Acquire > p.cfg.Acquire/2 {
		w.half++
	}
	if e.Acquire > p.cfg.Acquire {
		w.over++
	}
	p.adapt(now, part)
}

// adapt changes the number of slots if the waits of the window up to part were too long or short. Between the two bounds nothing
// changes, so that the number does not swing.
func (p *Pool) adapt(now time.Time, part int64) {
	var sum waits
	for _, w := range p.recent {
		if w.part > part-parts {
			sum.calls, sum.half, sum.over = sum.calls+w.calls, sum.half+w.half, sum.over+w.over
		}
	}
	switch {
	case sum.over > 1 && sum.over*100 > sum.calls: // a single long wait may have opened a connection
		p.change(now, p.places*3/4)
	case sum.half*100 <= sum.calls && now.Sub(p.changed) >= p.cfg.Window:
		p.change(now, p.places+max(1, p.places/4))
	}
}

func (p *Pool) change(now time.Time, places int) {
	// Earlier waits belong to the old number, so the window begins again.
	if places = min(max(1, places), p.cfg.Limit); places != p.places {
		p.places, p.changed, p.recent = places, now, [parts]waits{}
	}
}
