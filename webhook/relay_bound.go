package webhook

import "time"

// bound is the position at which a claim of an endpoint begins to read. Deliveries are ordered by due time and
// event, or by event alone if the endpoint is ordered. No delivery before the bound waits, as far as this
// process knows. The bound saves time on PostgreSQL: an open transaction keeps the index entries of deleted
// rows, and a claim from the beginning would read all of them.
type bound struct {
	due   int64 // microseconds since 1970, by the clock of the database
	event int64
}

// isBefore reports whether a read that begins at b would miss a row at o.
func (o bound) isBefore(b bound, ordered bool) bool {
	if ordered || o.due == b.due {
		return o.event < b.event
	}
	return o.due < b.due
}

// past returns where the next claim begins, after a claim that has read all earlier rows. The caller has locked
// the board.
func (b *board) past(a *ask) bound {
	late := bound{due: b.latest - lateness.Microseconds()}
	switch {
	case a.first != nil:
		return *a.first
	// An event with a lower number than the first row may still commit.
	case a.ordered:
		return bound{event: b.old}
	case a.from.isBefore(late, false):
		return late
	}
	return a.from
}

// saw records the time of the latest event, and the number below which no event can commit any more. A
// parameter that is 0 changes nothing.
func (b *board) saw(latest, old int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.latest, b.old = max(b.latest, latest), max(b.old, old)
}

// bounded returns the targets with a bound, whose first rows no claim reads.
func (b *board) bounded() (asks []ask) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.targets {
		if t.from != (bound{}) && !t.gone && !t.disabled && t.broken == nil {
			asks = append(asks, ask{target: t, ordered: t.ordered, limit: 1})
		}
	}
	return asks
}

// found records that a delivery of a target is due at a position.
func (b *board) found(t *target, at bound) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := time.Now(); at.isBefore(t.from, t.ordered) {
		t.wake(at, now)
		b.list(t, now)
	}
}
