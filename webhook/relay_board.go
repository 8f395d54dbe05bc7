package webhook

import (
	"container/heap"
	"slices"
	"sync"
	"time"
)

const (
	slowAfter  = time.Second // then a request gives its place back
	fastPlaces = 1024        // requests at once that are not slow; half of them for endpoints in trouble
	slowPlaces = 4096        // slow ones
	unsettled  = 64          // deliveries of one endpoint whose outcome is not written down yet
	askMost    = 256         // endpoints in one claim
	askEvery   = time.Second // an endpoint for which nothing was found
	unparked   = 8           // endpoints that are looked at when a place is free
)

// board knows whose turn it is. Nothing in it reads the database or waits.
type board struct {
	mu      sync.Mutex
	most    int64 // bytes of requests on their way that are not slow, and as many of slow ones
	targets map[int64]*target
	tenants map[string]map[*target]struct{}
	queue   queue
	parked  []*target // that wait for a place
	woken   chan struct{}

	fast, slow           int // requests on their way
	fastBytes, slowBytes int64

	reached time.Time // when the last request began that was answered on a new connection
}

func newBoard(most int64) *board {
	return &board{most: most, targets: map[int64]*target{}, tenants: map[string]map[*target]struct{}{}, woken: make(chan struct{}, 1)}
}

// ask is what a claim asks the database for.
type ask struct {
	target  *target
	ordered bool
	want    int // deliveries that may begin
	limit   int // rows: also those that are on their way are found
	wakes   int // before
}

// due returns the endpoints to be asked for, and when to look again if there are none; zero: when it is woken.
func (b *board) due() (asks []ask, again time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	room := fastPlaces - b.fast
	for len(b.queue) > 0 && len(asks) < askMost && room > 0 {
		t := b.queue[0]
		if t.key.After(now) {
			break
		}
		heap.Pop(&b.queue)
		switch {
		case t.target.idle():
			continue
		case t.target.ready(now).After(now):
			b.list(t.target, now)
			continue
		case !b.mayStart(t.target):
			t.target.waiting = true
			b.parked = append(b.parked, t.target)
			continue
		}
		asks = append(asks, b.ask(t.target))
		room -= asks[len(asks)-1].want
	}
	if len(b.queue) > 0 && room > 0 {
		again = b.queue[0].key
	}
	return asks, again
}

// ask begins a claim.
func (b *board) ask(t *target) ask {
	t.claimed = true
	want := t.wants()
	return ask{target: t, ordered: t.ordered, want: want, limit: want + len(t.flight), wakes: t.wakes}
}

// mayStart reports whether there is a place for a request. Endpoints in trouble get half of the places.
func (b *board) mayStart(t *target) bool {
	places, bytes := fastPlaces, b.most
	if t.inTrouble() {
		places, bytes = places/2, bytes/2
		if t.running > 0 && b.slow >= slowPlaces/2 {
			return false
		}
	}
	return b.fast < places && b.fastBytes < bytes
}

// isNew reports whether a row that a claim has found is not on its way.
func (b *board) isNew(t *target, event int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, known := t.flight[event]
	return !known
}

// start takes a place for a delivery, or returns false if it must not begin: there is no place, or something has changed since it was claimed.
func (b *board) start(d *delivery) (s settings, started bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := d.target
	if t.gone || t.disabled || time.Now().Before(t.until) || t.wants() <= 0 || !b.mayStart(t) {
		return s, false
	}
	t.flight[d.event] = true
	t.running++
	if t.rate > 0 {
		t.tokens--
	}
	b.fast++
	b.fastBytes += d.bytes
	return t.settings, true
}

// claimed ends a claim. The target is looked at again at a time.
func (b *board) claimed(a ask, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := a.target
	t.claimed = false
	for event, underWay := range t.flight {
		if !underWay {
			delete(t.flight, event)
		}
	}
	if t.at = at; t.wakes != a.wakes { // one of them may be of a row that the claim has not seen
		t.at = time.Now()
	}
	b.list(t, time.Now())
}

// isSlow gives the place of a delivery back, which goes on among the slow ones, if there is room.
func (b *board) isSlow(d *delivery) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if d.slow || d.over || b.slow >= slowPlaces || b.slowBytes+d.bytes > b.most {
		return
	}
	d.slow = true
	d.target.slow++
	b.fast--
	b.fastBytes -= d.bytes
	b.slow++
	b.slowBytes += d.bytes
	b.unpark()
}

// ended notes the end of a request and what it says of the endpoint. It is not written down yet.
func (b *board) ended(d *delivery) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := d.target
	t.running--
	if d.slow {
		t.slow--
		b.slow--
		b.slowBytes -= d.bytes
	} else {
		b.fast--
		b.fastBytes -= d.bytes
	}
	d.over = true
	d.note(b.reached, time.Now())
	if d.answer.fresh && d.answer.Status != 0 && d.answer.At.After(b.reached) {
		b.reached = d.answer.At
	}
	b.unpark()
	b.list(t, time.Now())
}

// settled notes that the outcome of a delivery is written down. A claim that has begun before may still see its row.
func (b *board) settled(d *delivery) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := d.target
	if t.flight[d.event] = false; !t.claimed {
		delete(t.flight, d.event)
	}
	if t.gone && !t.pending() {
		delete(b.targets, t.id)
	}
	b.list(t, time.Now())
}

// unpark lists some of those that wait for a place, which was given back: some may not need it. The claimer is woken also if none waits: while all places
// are taken it looks at no endpoint of the queue.
func (b *board) unpark() {
	notify(b.woken)
	n := min(len(b.parked), unparked)
	for _, t := range b.parked[:n] {
		t.waiting = false
		b.list(t, time.Now())
	}
	b.parked = slices.Delete(b.parked, 0, n)
}

// list puts a target where it belongs in the queue.
func (b *board) list(t *target, now time.Time) {
	if t.idle() {
		if t.index >= 0 {
			heap.Remove(&b.queue, t.index)
		}
		return
	}
	key := t.ready(now)
	if t.index >= 0 {
		b.queue[t.index].key = key
		heap.Fix(&b.queue, t.index)
	} else {
		heap.Push(&b.queue, queued{key, t})
	}
	if t.index == 0 {
		notify(b.woken)
	}
}

// wake has all endpoints of a tenant looked at now.
func (b *board) wake(tenant string) (known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for t := range b.tenants[tenant] {
		t.wakes++
		t.at = now
		b.list(t, now)
	}
	return len(b.tenants[tenant]) > 0
}

// disable leaves a target alone until a person has enabled it.
func (b *board) disable(t *target) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t.disabled, t.health = true, health{}
	b.list(t, time.Now())
}

// told notes what the owner of a target was told.
func (b *board) told(t *target, percent int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t.told = percent
}

// healthOf returns how a target is doing now.
func (b *board) healthOf(t *target) health {
	b.mu.Lock()
	defer b.mu.Unlock()
	return t.health
}

// rest leaves a target alone for a while, without a failure of it.
func (b *board) rest(t *target, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t.until = time.Now().Add(d)
	b.list(t, time.Now())
}

// keep notes which endpoints there are in the parts that this process holds, with their versions. It returns those that must be read.
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

// drop forgets a target, as soon as nothing is on its way to it.
func (b *board) drop(t *target) {
	t.gone = true
	b.list(t, time.Time{})
	delete(b.tenants[t.tenant], t)
	if len(b.tenants[t.tenant]) == 0 {
		delete(b.tenants, t.tenant)
	}
	if !t.pending() {
		delete(b.targets, t.id)
	}
}

// put notes what was read of an endpoint.
func (b *board) put(id int64, part int, version int64, s *settings, h *health) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	t := b.targets[id]
	if t == nil {
		t = &target{id: id, flight: map[int64]bool{}, index: -1, at: now}
		b.targets[id] = t
	}
	if t.gone || t.version == 0 {
		t.health, t.window, t.at = *h, 1, now // one that hangs takes one place until it is known
	}
	delete(b.tenants[t.tenant], t)
	if b.tenants[s.tenant] == nil {
		b.tenants[s.tenant] = map[*target]struct{}{}
	}
	b.tenants[s.tenant][t] = struct{}{}
	if t.disabled && !s.disabled {
		t.health, t.at = health{stored: t.stored}, now
	}
	t.stored = t.stored || h.stored
	t.part, t.version, t.settings, t.gone = part, version, *s, false
	t.window = max(1, min(t.window, t.concurrency))
	b.list(t, now)
}

// queued is a target and when it is looked at.
type queued struct {
	key    time.Time
	target *target
}

// queue is a heap, the earliest first.
type queue []queued

// Len implements [heap.Interface].
func (q *queue) Len() int { return len(*q) }

// Less implements [heap.Interface].
func (q *queue) Less(i, j int) bool { return (*q)[i].key.Before((*q)[j].key) }

// Swap implements [heap.Interface].
func (q *queue) Swap(i, j int) {
	list := *q
	list[i], list[j] = list[j], list[i]
	list[i].target.index, list[j].target.index = i, j
}

// Push implements [heap.Interface].
func (q *queue) Push(x any) {
	e := x.(queued) //nolint:forcetypeassert // the heap has nothing else
	e.target.index = len(*q)
	*q = append(*q, e)
}

// Pop implements [heap.Interface].
func (q *queue) Pop() any {
	old := *q
	last := old[len(old)-1]
	*q = old[:len(old)-1]
	last.target.index = -1
	return last
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
