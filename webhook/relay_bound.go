package webhook

import "time"

// bound is where a claim of an endpoint begins to read, in the order in which its deliveries begin: by the time at which they are due and their event, or by the event alone if the
// endpoint is ordered. What lies before was delivered or has stopped. PostgreSQL keeps the index entries of rows that are gone for as long as a transaction is open which may
// see them, and a claim that began before them would read each of them.
type bound struct {
	due   int64 // microseconds since 1970, by the clock of the database
	event int64
}

// isBefore reports whether o would not be read from b on.
func (o bound) isBefore(b bound, ordered bool) bool {
	if ordered || o.due == b.due {
		return o.event < b.event
	}
	return o.due < b.due
}

// past is where the next claim begins after one that has read all before it. The board is locked.
func (b *board) past(a *ask) bound {
	late := bound{due: b.latest - lateness.Microseconds()}
	switch {
	case a.first != nil:
		return *a.first
	case a.ordered:
		return bound{event: b.old}
	case a.from.isBefore(late, false):
		return late
	}
	return a.from
}

// saw notes when the last event was sent that was seen, and below which number none commits now; 0: that is not known.
func (b *board) saw(latest, old int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.latest, b.old = max(b.latest, latest), max(b.old, old)
}

// bounded returns the targets of which not all rows are read.
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

// found notes that a delivery of a target is due.
func (b *board) found(t *target, at bound) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := time.Now(); at.isBefore(t.from, t.ordered) {
		t.wake(at, now)
		b.list(t, now)
	}
}
