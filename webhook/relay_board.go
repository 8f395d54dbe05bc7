package webhook

import (
	"container/heap"
	"slices"
	"sync"
	"time"
)

const (
	slowAfter  = time.Second // after this time a request counts as slow, and moves to a place for slow requests
	fastPlaces = 1024        // concurrent requests that are not slow
	slowPlaces = 4096        // concurrent slow requests
	unsettled  = 64          // the maximum number of deliveries of one endpoint whose outcome is not written yet
	askMost    = 256         // the maximum number of endpoints in one claim
	askEvery   = time.Second // the pause before the relay looks again for deliveries of an endpoint without due deliveries
	lateness   = time.Minute // a claim looks this far back for deliveries; the finder finds older ones
)

// board decides in memory which endpoint is next. No method of board reads the database or waits.
type board struct {
	mu      sync.Mutex
	most    int64 // the maximum number of bytes of requests that are not slow; the slow requests have a second limit of the same size
	targets map[int64]*target
	tenants map[string]map[*target]struct{}
	queues  [standings]queue
	parked  map[*target]struct{} // targets that wait for a place for a slow request
	stuck   []*delivery          // slow requests that found no place among the slow requests: they keep their first places
	woken   chan struct{}

	fast, slow           int // the numbers of requests in flight
	fastBytes, slowBytes int64

	latest int64 // time of the latest event seen, in microseconds since 1970
	old    int64 // an event that commits now has a higher number, unless its transaction has taken very long

	reached time.Time // start of the last request that was answered on a new connection
}

func newBoard(most int64) *board {
	return &board{most: most, targets: map[int64]*target{}, tenants: map[string]map[*target]struct{}{}, parked: map[*target]struct{}{}, woken: make(chan struct{}, 1)}
}

// ask is the part of a claim that concerns one endpoint.
type ask struct {
	target  *target
	ordered bool
	want    int // how many deliveries may begin
	limit   int // how many rows to read: the statement also finds the deliveries that are already running
	wakes   int // target.wakes when the claim began
	from    bound
	read    bool   // the statement has succeeded
	first   *bound // the first row that was found; nil if no row was found
}

// due returns the endpoints for the next claim. If no endpoint is due, again is the time of the next look. If
// again is zero, the claimer waits for a wake.
func (b *board) due() (asks []ask, again time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	taken := 0 // places that the deliveries of these asks will probably need
	for len(asks) < askMost {
		t, key := b.first(taken)
		if t == nil || key.After(now) {
			return asks, key
		}
		// The target is the first of its queue.
		heap.Pop(&b.queues[t.queued])
		switch {
		// The target has changed since it was queued, and no delivery can begin.
		case t.idle():
		// The target has changed since it was queued, and is not ready yet.
		case t.ready(now).After(now):
			b.list(t, now)
		// An endpoint in trouble must not take the last places from endpoints without a request.
		case b.mustPark(t):
			t.waiting = true
			b.parked[t] = struct{}{}
		default:
			asks = append(asks, b.ask(t))
			// A look that probably finds no delivery must not reserve places.
			if t.likely {
				taken += asks[len(asks)-1].want
			}
		}
	}
	return asks, now
}

// first returns the target that is due first, among the targets that would still get a place after taken more
// requests.
func (b *board) first(taken int) (t *target, key time.Time) {
	for of := range b.queues {
		if q := b.queues[of]; len(q) > 0 && b.hasPlace(of, taken) && (t == nil || q[0].key.Before(key)) {
			t, key = q[0].target, q[0].key
		}
	}
	return t, key
}

// ask begins the claim of a target.
func (b *board) ask(t *target) ask {
	t.claimed = true
	want := t.wants()
	a := ask{target: t, ordered: t.ordered, want: want, limit: want + len(t.flight), wakes: t.wakes, from: t.from}
	if t.ordered { // an event that commits late must not be overtaken
		a.from.event = min(a.from.event, b.old)
	}
	return a
}

// hasPlace reports whether a request to a target with this standing gets a place. A request always gets a place
// if no other request runs, however large its data is.
func (b *board) hasPlace(standing, taken int) bool {
	const quarter = 4
	share := quarter - standing
	return b.fast+taken < fastPlaces*share/quarter && b.fastBytes < max(1, b.most*int64(share)/quarter)
}

// anyPlace reports whether any target would get a place.
func (b *board) anyPlace() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.hasPlace(standingGood, 0)
}

// mustPark reports whether a target gets no second request, because half of the places for slow requests are
// taken.
func (b *board) mustPark(t *target) bool {
	return t.running > 0 && t.standing() == standingTrouble && b.isHalfSlow()
}

func (b *board) isHalfSlow() bool {
	return b.slow >= slowPlaces/2 || b.slowBytes >= max(1, b.most/2)
}

// isNew reports whether a row that a claim has found belongs to no running delivery.
func (b *board) isNew(t *target, event int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, known := t.flight[event]
	return !known
}

// start takes a place for a delivery. It returns false if the delivery must not begin, because no place is free
// or the endpoint has changed since the claim.
func (b *board) start(d *delivery) (s settings, started bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := d.target
	// The lock was free since the claim, so each of these may have changed.
	if t.gone || t.disabled || t.broken != nil || t.ordered && t.pending() || time.Now().Before(t.until) || t.wants() <= 0 || b.mustPark(t) || !b.hasPlace(t.standing(), 0) {
		return s, false
	}
	t.flight[d.event] = true
	d.version = t.version
	t.running++
	if t.rate > 0 {
		t.tokens--
	}
	b.fast++
	b.fastBytes += d.bytes
	return t.settings, true
}

// claimed records the end of a claim. The parameter at is the time of the next look at the target.
func (b *board) claimed(a ask, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := a.target
	t.claimed = false
	// The claim has ended, and later claims do not find the old rows of these deliveries.
	for event, underWay := range t.flight {
		if !underWay {
			delete(t.flight, event)
		}
	}
	now := time.Now()
	if t.at = at; t.wakes != a.wakes { // the wake may concern a row that the claim has not seen
		t.at = now
	} else if a.read {
		t.from = b.past(&a)
	}
	t.likely = !t.at.After(now)
	b.list(t, now)
}

// isSlow records that a delivery is slow. If a place for slow requests is free, the delivery moves there and
// frees its first place.
func (b *board) isSlow(d *delivery) {
	b.mu.Lock()
	defer b.mu.Unlock()
	// The timer may fire when the request has just ended.
	if d.slow || d.over {
		return
	}
	d.slow = true
	d.target.slow++
	if !b.move(d) {
		b.stuck = append(b.stuck, d)
	}
	b.list(d.target, time.Now())
	notify(b.woken)
}

// move moves a slow delivery to a place for slow requests, if one is free.
func (b *board) move(d *delivery) bool {
	if b.slow >= slowPlaces || b.slowBytes > 0 && b.slowBytes+d.bytes > b.most {
		return false
	}
	d.moved = true
	b.fast--
	b.fastBytes -= d.bytes
	b.slow++
	b.slowBytes += d.bytes
	return true
}

// ended records the end of a request and its effect on the endpoint. The outcome of the delivery is written to
// the database later.
func (b *board) ended(d *delivery) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := d.target
	t.running--
	if d.slow {
		t.slow--
	}
	if d.moved {
		b.slow--
		b.slowBytes -= d.bytes
	} else {
		b.fast--
		b.fastBytes -= d.bytes
	}
	d.over = true
	d.note(b.reached, time.Now())
	// Only a new connection proves that the network works: an open connection may outlive a broken route or
	// resolver.
	if d.answer.fresh && d.answer.Status != 0 && d.answer.At.After(b.reached) {
		b.reached = d.answer.At
	}
	// The end of this request may have freed a place for a slow one.
	b.stuck = slices.DeleteFunc(b.stuck, func(other *delivery) bool { return other.over || b.move(other) })
	b.unpark(t)
	b.list(t, time.Now())
	notify(b.woken) // a place is free again: while all places are taken, the claimer looks at no endpoint
}

// settled records that the outcome of a delivery is written to the database. A claim that has begun earlier may
// still find the old row.
func (b *board) settled(d *delivery) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := d.target
	// A claim that is running may still find the old row, and must not begin the delivery again.
	if t.flight[d.event] = false; !t.claimed {
		delete(t.flight, d.event)
	}
	// drop has kept the target until its last outcome was written.
	if t.gone && !t.pending() {
		delete(b.targets, t.id)
	}
	b.list(t, time.Now())
}

// unpark lists the target of a request that has ended. If places for slow requests are free, it also lists all
// parked targets.
func (b *board) unpark(t *target) {
	t.waiting = false
	delete(b.parked, t)
	// The free places are for targets without a running request. Parked targets would take them.
	if b.isHalfSlow() {
		return
	}
	for t := range b.parked {
		t.waiting = false
		b.list(t, time.Now())
	}
	clear(b.parked)
}

// list puts a target into the queue of its standing, or removes an idle target from its queue.
func (b *board) list(t *target, now time.Time) {
	idle, standing := t.idle(), t.standing()
	if t.index >= 0 && (idle || t.queued != standing) {
		heap.Remove(&b.queues[t.queued], t.index)
	}
	if idle {
		return
	}
	key, q := t.ready(now), &b.queues[standing]
	if t.index >= 0 {
		(*q)[t.index].key = key
		heap.Fix(q, t.index)
	} else {
		t.queued = standing
		heap.Push(q, queued{key, t})
	}
	// If the target is the first of its queue, the claimer may have to look earlier than planned.
	if t.index == 0 {
		notify(b.woken)
	}
}

// wake makes the relay look now at all endpoints of a tenant, for deliveries at or after from.
func (b *board) wake(tenant string, from bound) (known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for t := range b.tenants[tenant] {
		t.wake(from, now)
		b.list(t, now)
	}
	return len(b.tenants[tenant]) > 0
}

// disable stops a target until a person enables its endpoint. The relay reads the endpoint again, because a
// person may already have enabled it.
func (b *board) disable(t *target) {
	b.mu.Lock()
	defer b.mu.Unlock()
	// No endpoint has version -1, so the lister reads the endpoint again.
	t.disabled, t.health, t.version = true, health{}, -1
	b.list(t, time.Now())
}

// told records which warning the owner of a target has received last, as a percentage of the time until the
// endpoint is disabled.
func (b *board) told(t *target, percent int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t.told = percent
}

// healthOf returns the current health of a target.
func (b *board) healthOf(t *target) health {
	b.mu.Lock()
	defer b.mu.Unlock()
	return t.health
}

// keep records which endpoints exist in the parts of this process, with their versions. It returns the
// endpoints that the lister must read again.
func (b *board) keep(versions map[int64]int64) (read []int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, t := range b.targets {
		if _, exists := versions[id]; !exists {
			b.drop(t)
		}
	}
	for id, version := range versions {
		if t := b.targets[id]; t == nil || t.gone || t.version != version {
			read = append(read, id)
		}
	}
	return read
}

// drop removes a target from memory as soon as it has no running delivery.
func (b *board) drop(t *target) {
	t.gone, t.waiting = true, false
	delete(b.parked, t)
	b.list(t, time.Time{})
	delete(b.tenants[t.tenant], t)
	if len(b.tenants[t.tenant]) == 0 {
		delete(b.tenants, t.tenant)
	}
	if !t.pending() {
		delete(b.targets, t.id)
	}
}

// broken returns the endpoints whose secrets or headers cannot be decrypted.
func (b *board) broken() (ids []int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, t := range b.targets {
		if !t.gone && t.broken != nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// put stores an endpoint that was read from the database. It reports whether the target was broken before.
func (b *board) put(id int64, part int, version int64, s *settings, h *health) (wasBroken bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	t := b.targets[id]
	wasBroken = t != nil && !t.gone && t.broken != nil
	if t == nil {
		t = &target{id: id, uid: s.uid, part: part, flight: map[int64]bool{}, index: -1, at: now}
		b.targets[id] = t
	}
	if t.gone || t.version == 0 {
		t.health, t.window, t.known = *h, 1, false // a hanging endpoint takes only one place until its first answer
	}
	if t.gone || t.version == 0 || t.ordered != s.ordered { // a bound has another meaning for ordered endpoints
		t.from = bound{}
		t.wake(bound{}, now)
	}
	delete(b.tenants[t.tenant], t)
	if b.tenants[s.tenant] == nil {
		b.tenants[s.tenant] = map[*target]struct{}{}
	}
	b.tenants[s.tenant][t] = struct{}{}
	if t.disabled && !s.disabled || t.version != version && t.stored && !h.stored { // a person has enabled the endpoint, perhaps between two lists
		t.health, t.at = health{stored: t.stored}, now
	}
	t.stored = t.stored || h.stored
	t.version, t.settings, t.gone = version, *s, false
	t.concurrency = min(t.concurrency, maxConcurrency)
	// A person may have lowered the concurrency.
	t.window = max(1, min(t.window, t.concurrency))
	b.list(t, now)
	return wasBroken
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
