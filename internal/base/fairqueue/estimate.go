package fairqueue

import "time"

// MaxAfter is the longest time after which a caller is told to come back. Not all do, so
// what lies further ahead is not known.
const MaxAfter = time.Minute

// ahead returns how many of those who wait are served before the next one of t.
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

// gap returns the time between two ends of service, when all places are taken. While
// none is done, it grows: something is stuck, and what was measured before is no
// longer true.
func (q *Queue) gap(now time.Duration) time.Duration {
	mean := q.mean
	if stuck := now - q.progress; q.running > 0 && stuck > mean {
		mean = stuck
	}
	return mean / time.Duration(q.Places())
}

// refuse says why t has to go. Who has more waiting than his part of the places is told
// so, and everybody else that all are taken.
func (q *Queue) refuse(now time.Duration, t *tenant, why Why) Refusal {
	if n := len(q.tenants); n > 1 && len(t.waiters) >= max(1, q.Queue/n) {
		return Refusal{Share, q.promise(now, t)}
	}
	return Refusal{why, q.promise(now, nil)}
}

// promise returns after how long there will be room. Everybody is told another moment,
// as far apart as they can be served: those who are sent away together do not come back
// together. The promises to one who has had his share are his own affair.
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
