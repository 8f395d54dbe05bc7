package webhook

import "time"

// bound is the place where a claim of an endpoint begins to read. Deliveries are ordered as they begin: by
// their due time and their event, or by the event alone if the endpoint is ordered. Deliveries before the bound
// were delivered or have stopped. The bound saves time on PostgreSQL, which keeps index entries of deleted rows
// as long as a transaction is open that may see them: a claim from the beginning would read each of these
// entries.
type bound struct {
	due   int64 // microseconds since 1970, by the clock of the database
	event int64
}

// isBefore reports whether a read from b on would miss o.
func (o bound) isBefore(b bound, ordered bool) bool {
	if ordered || o.due == b.due {
		return o.event < b.event
	}
	return o.due < b.due
}

// past returns where the next claim begins after a claim that has read everything before that place. The caller
// has locked the board.
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

// saw records when the latest event that was seen was sent, and the number below which no event can commit any
// more; 0 means not known.
func (b *board) saw(latest, old int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.latest, b.old = max(b.latest, latest), max(b.old, old)
}

// bounded returns the targets that are not read from their first row on.
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

// found records that a delivery of a target is due.
func (b *board) found(t *target, at bound) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := time.Now(); at.isBefore(t.from, t.ordered) {
		t.wake(at, now)
		b.list(t, now)
	}
}
