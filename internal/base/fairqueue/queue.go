package fairqueue

import (
	"slices"
	"time"
)

// Capacity is how many are served at the same time, if that changes. A nil Capacity is
// Config.Limit.
type Capacity interface {
	Acquire() (release func(useful bool), ok bool)
	Limit() int
}

// Config of a [Queue]. Nothing has a default here.
type Config struct {
	Limit    int           // served at the same time
	Capacity Capacity      // instead of Limit
	Queue    int           // waiting at the same time
	Wait     time.Duration // the longest that a request waits
}

// Queue has the requests that are served and the requests that wait.
type Queue struct {
	Config

	running, waiting int
	tenants          map[string]*tenant // with a request that runs or waits
	order            []*tenant          // with a request that waits, next one first
	spare            *tenant

	mean     time.Duration // the mean service time of late
	progress time.Duration // when a request was last served, or could have been at once
	promised time.Duration // the last moment that was promised to a caller
}

// Ticket is a request that is served.
type Ticket struct {
	tenant  *tenant
	began   time.Duration
	release func(useful bool)
}

// Waiter is a request that waits.
type Waiter struct {
	// Call is called once: when it is his turn, with the zero Refusal, or when he has
	// to go. It must not call the queue.
	Call   func(Refusal)
	Ticket Ticket // when it is his turn

	tenant *tenant
	queued bool
}

// Why a request is refused.
type Why uint8

const (
	Admitted Why = iota
	Share        // others have a right to the place
	Full         // there is no place
	Late         // his turn would come too late
)

// Refusal is why, and after how long there is likely to be room.
type Refusal struct {
	Why   Why
	After time.Duration
}

// New returns an empty queue.
func New(cfg Config) *Queue { return &Queue{Config: cfg, tenants: map[string]*tenant{}} }

// Enter serves a request at once, if no other waits and a place is free.
func (q *Queue) Enter(now time.Duration, name string) (Ticket, bool) {
	if q.waiting > 0 {
		return Ticket{}, false
	}
	release, ok := q.acquire()
	if !ok {
		return Ticket{}, false
	}
	q.progress = now
	return q.start(now, q.tenant(name), release), true
}

// Wait puts w into the queue, if its turn is likely to come within Config.Wait and it
// is likely to be served within budget (0: any time). Another may have to go for
// it: the last one of the tenant that has the most waiting.
func (q *Queue) Wait(now time.Duration, name string, budget time.Duration, w *Waiter) Refusal {
	t := q.tenant(name)
	defer q.drop(t)
	wait := time.Duration(q.ahead(t)+1) * q.gap(now)
	if wait > q.Config.Wait || budget > 0 && wait+q.mean > budget {
		return q.refuse(now, t, Late)
	}
	if q.waiting >= q.Queue {
		most := q.longest()
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

// Quit takes w, which has waited long enough, out of the queue. If w was called in the
// meantime it does nothing, and ok is false.
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

// Leave ends a service. A useful one has taken the time that such things take; one that
// was broken off has not.
func (q *Queue) Leave(now time.Duration, served Ticket, useful bool) {
	if useful {
		if took := now - served.began; q.mean == 0 {
			q.mean = took
		} else {
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

// Mean returns how long a service has taken lately.
func (q *Queue) Mean() time.Duration { return q.mean }

func (q *Queue) start(now time.Duration, t *tenant, release func(bool)) Ticket {
	q.running++
	t.running++
	return Ticket{t, now, release}
}

// acquire takes a place. If no request runs, it always succeeds: otherwise the waiting requests would wait
// for ever, because only the end of another one wakes them.
func (q *Queue) acquire() (release func(bool), ok bool) {
	if q.Capacity != nil {
		release, ok = q.Capacity.Acquire()
		return release, ok || q.running == 0
	}
	return nil, q.running < q.Limit
}

// Places returns how many may be served at the same time.
func (q *Queue) Places() int {
	if q.Capacity != nil {
		return max(1, q.Capacity.Limit())
	}
	return q.Limit
}

// next takes the next request to serve out of the queue: the first one of a tenant with the fewest running
// requests. Tenants with equally many take turns.
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
