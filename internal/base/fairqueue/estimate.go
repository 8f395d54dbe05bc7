package fairqueue

import "time"

// MaxAfter is the longest time after which a refused caller is asked to come back. Not all callers do, so
// estimates further ahead would be wrong.
const MaxAfter = time.Minute

// ahead returns how many waiting requests are served before the next one of t.
func (q *Queue) ahead(t *tenant) int {
	own := len(t.waiters)
	n := own
	for _, other := range q.order {
		if other != t {
			n += min(len(other.waiters), own+1)
		}
	}
	return n
}

// gap returns the time between two ends of service, when all places are taken. As long as
// no request ends, it grows: the requests are stuck, and the earlier measurements no longer
// apply.
func (q *Queue) gap(now time.Duration) time.Duration {
	mean := q.mean
	if stuck := now - q.progress; q.running > 0 && stuck > mean {
		mean = stuck
	}
	return mean / time.Duration(q.Places())
}

// refuse returns why t is refused. A tenant with more waiting requests than its share of the places gets
// Share; every other tenant gets why.
func (q *Queue) refuse(now time.Duration, t *tenant, why Why) Refusal {
	if n := len(q.tenants); n > 1 && len(t.waiters) >= max(1, q.Queue/n) {
		return Refusal{Share, q.promise(now, t)}
	}
	return Refusal{why, q.promise(now, nil)}
}

// promise returns after how long there will be room. Every caller gets a different moment,
// as far apart as they can be served, so that refused callers do not all come back at the
// same time. A tenant above its share has a series of promises of its own.
func (q *Queue) promise(now time.Duration, t *tenant) time.Duration {
	gap, n, last := q.gap(now), q.waiting, &q.promised
	room := gap
	if t != nil {
		n, last = q.ahead(t), &t.promised
		room *= time.Duration(max(1, len(q.order)))
	}
	*last = min(max(*last+room, now+time.Duration(n+1)*gap), now+MaxAfter)
	return *last - now
}
