package webhook

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/oncelib/once/internal/base/sleep"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store/sqlplane"
)

const (
	hintEvery = 20 * time.Millisecond
	hintBack  = 100 * time.Millisecond // a read looks this far back, because transactions do not commit in the order of their ids
	hintMost  = 1000                   // the maximum number of events of one read
	slowness  = 5 * time.Minute        // how long a transaction may stay open after it has taken the number of its event, so that the relay still waits for it
	findEvery = time.Second
	findShare = 4 // the finder uses at most one part in findShare of the time of a connection: after a slow read it pauses longer
)

// hinter reads the ids of new events often, so that the relay reacts quickly to a Send of another process. It
// may miss an event. The claims miss none, and run once a second.
type hinter struct {
	relay  *Relay
	mark   int64 // the highest id that was read
	low    int64 // the highest id that was read a moment ago
	next   int64 // the next value of low
	backAt time.Time
	seen   map[int64]struct{} // ids above low that were already seen
	older  int64              // an older value of mark
	oldAt  time.Time
}

func (h *hinter) run(ctx context.Context, changed chan struct{}) {
	for failures := 0; ctx.Err() == nil; {
		err := h.start(ctx)
		if err == nil {
			break
		}
		failures++
		h.relay.databaseFailed(ctx, err, failures)
	}
	tick := time.NewTicker(hintEvery)
	defer tick.Stop()
	for failures := 0; ctx.Err() == nil; {
		more, err := h.read(ctx, changed)
		if err != nil && ctx.Err() == nil {
			failures++
			h.relay.databaseFailed(ctx, err, failures)
			continue
		}
		failures = 0
		if more {
			continue
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		// This process has sent an event, so the read need not wait for the next tick.
		case <-h.relay.woken:
		}
	}
}

// start sets the mark to the highest id that exists.
func (h *hinter) start(ctx context.Context) error {
	var latest, now time.Time
	last := h.relay.text("select id, created_at, NOW from once_webhook_event order by id desc limit 1")
	err := h.relay.query(ctx, last, func(row sqlplane.Row) error {
		return row.Scan(&h.mark, (*dialect.Time)(&latest), (*dialect.Time)(&now))
	})
	h.low, h.next, h.seen, h.older, h.oldAt = h.mark, h.mark, map[int64]struct{}{}, h.mark, time.Now()
	if err != nil || h.mark == 0 {
		return err
	}
	// Events below this number belong to transactions that are assumed to have ended.
	first, err := firstSince(ctx, h.relay.db, "created_at from once_webhook_event where ", now.Add(-slowness))
	h.relay.board.saw(latest.UnixMicro(), first-1)
	return err
}

// read wakes the endpoints of the tenants that have new events. The result more reports that further events
// exist.
func (h *hinter) read(ctx context.Context, changed chan struct{}) (more bool, err error) {
	rows, low := 0, h.low
	tenants := map[string]bound{} // the position of the first new event of each tenant
	latest := int64(0)
	err = h.relay.query(ctx, h.relay.text("select id, tenant, created_at from once_webhook_event where id > ? order by id limit "+strconv.Itoa(hintMost), low), func(row sqlplane.Row) error {
		var id int64
		var tenant string
		var at time.Time
		if err := row.Scan(&id, &tenant, (*dialect.Time)(&at)); err != nil {
			return err
		}
		rows++
		h.mark = max(h.mark, id)
		if _, twice := h.seen[id]; !twice {
			h.seen[id] = struct{}{}
			first, twice := tenants[tenant]
			if !twice {
				first = bound{at.UnixMicro(), id}
			}
			tenants[tenant] = bound{min(first.due, at.UnixMicro()), min(first.event, id)}
			latest = max(latest, at.UnixMicro())
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	for tenant, first := range tenants {
		if !h.relay.board.wake(tenant, first) { // the tenant may have a new endpoint, which only the lister finds
			notify(changed)
		}
	}
	now, old := time.Now(), int64(0)
	// A transaction that took its number before this time is assumed to have ended.
	if now.Sub(h.oldAt) >= slowness {
		old, h.older, h.oldAt = h.older, h.mark, now
	}
	h.relay.board.saw(latest, old)
	if more = rows >= hintMost; more { // with so many new events the next read does not look back
		h.low, h.next, h.backAt = h.mark, h.mark, now
		clear(h.seen)
	} else if now.Sub(h.backAt) >= hintBack {
		h.low, h.next, h.backAt = h.next, h.mark, now
		for id := range h.seen {
			if id <= h.low {
				delete(h.seen, id)
			}
		}
	}
	return more, nil
}

// finder finds deliveries before the bounds of endpoints: deliveries whose transaction has committed late, and
// deliveries that became due again. It reads each endpoint from its first row, which may take long. No claim
// waits for it.
type finder struct{ relay *Relay }

func (f *finder) run(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		began := time.Now()
		if err := f.find(ctx); err != nil && ctx.Err() == nil {
			failures++
			f.relay.databaseFailed(ctx, err, failures)
			continue
		}
		failures = 0
		sleep.For(ctx, max(findEvery, findShare*time.Since(began)))
	}
}

// find reads the first delivery of each endpoint that has a bound.
func (f *finder) find(ctx context.Context) error {
	b := f.relay.board
	for some := range slices.Chunk(b.bounded(), listMost) {
		byID := map[int64]*target{}
		for _, a := range some {
			byID[a.target.id] = a.target
		}
		err := f.relay.query(ctx, f.relay.due(some, false), func(row sqlplane.Row) error {
			_, endpoint, at, isDue, err := scanDue(row)
			if err == nil && isDue && byID[endpoint] != nil {
				b.found(byID[endpoint], at)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
