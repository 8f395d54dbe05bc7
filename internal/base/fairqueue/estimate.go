package fairqueue

import "time"

// MaxAfter is the longest time after which a refused caller is asked to try again. Some callers do not return, so longer
// estimates would be wrong.
const MaxAfter = time.Minute

// ahead returns how many waiting requests are served before the next request of t.
func (q *Queue) ahead(t *tenant) int {
	own := len(t.waiters)
	n := own
	for _, other := range q.order {
		if other != t {
			// Tenants take turns, so another tenant gets at most one request more than t before the next one of t.
			n += min(len(other.waiters), own+1)
		}
	}
	return n
}

// gap returns the time between two ends of a service while all places are taken. If no request ends, this time grows:
// the requests are stuck, and the earlier measurements are not valid any more.
func (q *Queue) gap(now time.Duration) time.Duration {
	mean := q.mean
	// No measurement ends while requests are stuck, so the time since the last end is the better estimate.
	if stuck := now - q.progress; q.running > 0 && stuck > mean {
		mean = stuck
	}
	return mean / time.Duration(q.Places())
}

// refuse returns the refusal of a request of t. The reason is Share if t has more waiting requests than its share of the
// places. Otherwise the reason is why.
func (q *Queue) refuse(now time.Duration, t *tenant, why Why) Refusal {
	if n := len(q.tenants); n > 1 && len(t.waiters) >= max(1, q.Queue/n) {
		return Refusal{Share, q.promise(now, t)}
	}
	return Refusal{why, q.promise(now, nil)}
}

// promise returns the time after which a place is likely to be free. Every caller gets a different time, so that refused
// callers do not all return at the same time. A tenant above its share has a separate series of times.
func (q *Queue) promise(now time.Duration, t *tenant) time.Duration {
	gap, n, last := q.gap(now), q.waiting, &q.promised
	room := gap
	if t != nil {
		n, last = q.ahead(t), &t.promised
		// The tenants take turns, so the tenant gets one of as many places as there are waiting tenants.
		room *= time.Duration(max(1, len(q.order)))
	}
	*last = min(max(*last+room, now+time.Duration(n+1)*gap), now+MaxAfter)
	return *last - now
}
