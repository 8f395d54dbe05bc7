package fairqueue

import (
	"slices"
	"time"
)

// Capacity is the changing number of requests that can be served at the same time. If Capacity is nil, Config.Limit is
// this number.
type Capacity interface {
	Acquire() (release func(useful bool), ok bool)
	Limit() int
}

// Config configures a [Queue]. Its fields have no defaults.
type Config struct {
	Limit    int           // how many requests are served at the same time
	Capacity Capacity      // replaces Limit
	Queue    int           // how many requests wait at the same time
	Wait     time.Duration // the longest that a request waits
}

// Queue contains the requests that are served and the requests that wait.
type Queue struct {
	Config

	running, waiting int
	tenants          map[string]*tenant // the tenants with a request that is served or waits
	order            []*tenant          // the tenants with a waiting request; the next tenant is first
	// spare is a list of unused tenants, so that most requests allocate none.
	spare *tenant

	mean     time.Duration // the recent mean time of a service
	progress time.Duration // when a request was last served, or could have been served at once
	promised time.Duration // the last moment that was promised to a caller
}

// Ticket is a request that is served now.
type Ticket struct {
	tenant  *tenant
	began   time.Duration
	release func(useful bool)
}

// Waiter is a request that waits.
type Waiter struct {
	// The queue calls Call one time: with the zero Refusal when the request is served, or with the reason when the
	// request must leave the queue. Call must not use the queue.
	Call   func(Refusal)
	Ticket Ticket // set when the request is served

	tenant *tenant
	queued bool
}

// Why is the reason of a refusal.
type Why uint8

const (
	Admitted Why = iota
	Share        // other tenants have a right to the place
	Full         // the queue is full
	Late         // the request would be served too late
)

// Refusal is the reason of a refusal, and the time after which a place is likely to be free.
type Refusal struct {
	Why   Why
	After time.Duration
}

// New returns an empty queue.
func New(cfg Config) *Queue { return &Queue{Config: cfg, tenants: map[string]*tenant{}} }

// Enter serves a request at once if a place is free and no other request waits for it.
func (q *Queue) Enter(now time.Duration, name string) (Ticket, bool) {
	// A waiting request has a right to the free place.
	if q.Serve(now); q.waiting > 0 {
		return Ticket{}, false
	}
	release, ok := q.acquire()
	if !ok {
		return Ticket{}, false
	}
	return q.start(now, q.tenant(name), release), true
}

// Wait puts w into the queue if two conditions are likely to hold: w is served within Config.Wait, and its service ends
// within budget (0: no limit). If the queue is full, w may replace the last request of the tenant with the most waiting
// requests.
func (q *Queue) Wait(now time.Duration, name string, budget time.Duration, w *Waiter) Refusal {
	t := q.tenant(name)
	defer q.drop(t)
	wait := time.Duration(q.ahead(t)+1) * q.gap(now)
	if wait > q.Config.Wait || budget > 0 && wait+q.mean > budget {
		return q.refuse(now, t, Late)
	}
	if q.waiting >= q.Queue {
		most := q.longest()
		// A tenant must not push out another one that waits with as few requests.
		if most == nil || len(most.waiters) <= len(t.waiters)+1 {
			return q.refuse(now, t, Full)
		}
		last := most.waiters[len(most.waiters)-1]
		q.remove(last)
		last.Call(Refusal{Share, q.promise(now, most)})
		q.drop(most)
	}
	if len(t.waiters) == 0 {
		q.order = append(q.order, t)
	}
	w.tenant, w.queued = t, true
	t.waiters = append(t.waiters, w)
	q.waiting++
	return Refusal{}
}

// Quit removes w from the queue, because w has waited long enough. If w was already called, Quit does nothing, and ok is
// false.
func (q *Queue) Quit(now time.Duration, w *Waiter) (r Refusal, ok bool) {
	if !w.queued {
		return Refusal{}, false
	}
	t := w.tenant
	q.remove(w)
	r = q.refuse(now, t, Late)
	q.drop(t)
	return r, true
}

// Leave ends a service. Only a useful service counts for the mean time; an interrupted service took less time than usual.
func (q *Queue) Leave(now time.Duration, served Ticket, useful bool) {
	if useful {
		if took := now - served.began; q.mean == 0 {
			q.mean = took
		} else {
			// A moving average, in which the last few services count most.
			q.mean += (took - q.mean) / 8
		}
	}
	q.progress = now
	if served.release != nil {
		served.release(useful)
	}
	q.running--
	served.tenant.running--
	q.drop(served.tenant)
	q.Serve(now)
}

// Serve serves waiting requests while places are free. Enter and Leave call it. With a Capacity, call it also now and then while
// requests wait: a Capacity gives no signal when it grows, and perhaps no request begins or ends for a long time.
func (q *Queue) Serve(now time.Duration) {
	for q.waiting > 0 {
		release, ok := q.acquire()
		if !ok {
			return
		}
		w := q.next()
		w.Ticket = q.start(now, w.tenant, release)
		w.Call(Refusal{})
	}
}

// Running returns how many are served.
func (q *Queue) Running() int { return q.running }

// Waiting returns how many wait.
func (q *Queue) Waiting() int { return q.waiting }

// Mean returns the recent mean time of a service.
func (q *Queue) Mean() time.Duration { return q.mean }

func (q *Queue) start(now time.Duration, t *tenant, release func(bool)) Ticket {
	q.progress = now
	q.running++
	t.running++
	return Ticket{t, now, release}
}

// acquire takes a place. If no request is served, acquire always succeeds: only the end of a request wakes the waiting
// requests, so they would otherwise wait for ever.
func (q *Queue) acquire() (release func(bool), ok bool) {
	if q.Capacity != nil {
		release, ok = q.Capacity.Acquire()
		return release, ok || q.running == 0
	}
	return nil, q.running < q.Limit
}

// Places returns how many requests can be served at the same time.
func (q *Queue) Places() int {
	if q.Capacity != nil {
		return max(1, q.Capacity.Limit())
	}
	return q.Limit
}

// next removes the next request from the queue: the first request of the tenant with the fewest served requests. If
// several tenants have the same number, they take turns.
func (q *Queue) next() *Waiter {
	turn := 0
	for i, t := range q.order {
		if t.running < q.order[turn].running {
			turn = i
		}
	}
	t := q.order[turn]
	w := t.waiters[0]
	q.remove(w)
	if len(t.waiters) > 0 {
		q.order = append(slices.Delete(q.order, turn, turn+1), t)
	}
	return w
}

// remove removes w from the queue, whatever its place is.
func (q *Queue) remove(w *Waiter) {
	t := w.tenant
	i := slices.Index(t.waiters, w)
	t.waiters = slices.Delete(t.waiters, i, i+1)
	w.queued = false
	q.waiting--
	if len(t.waiters) == 0 {
		i := slices.Index(q.order, t)
		q.order = slices.Delete(q.order, i, i+1)
	}
}
