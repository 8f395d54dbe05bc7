package webhook

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/oncelib/once/internal/base/sleep"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/sql/hold"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

const (
	readBytes   = 4 << 20     // the maximum size of the events that are read at once, estimated from the last ones
	readMost    = 128         // the maximum number of these events
	sealedPause = time.Minute // the pause before an event or an endpoint that could not be decrypted is tried again
)

// claimer finds due deliveries, and begins them. A claim writes nothing to the database: this process holds the
// parts, and the board knows the running deliveries.
type claimer struct {
	relay   *Relay
	largest int // about the size of the largest event that was read recently
}

func (c *claimer) run(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		asks, again := c.relay.board.due()
		if len(asks) == 0 {
			c.wait(ctx, again)
			continue
		}
		if err := c.claim(ctx, asks); err != nil && ctx.Err() == nil {
			failures++
			c.relay.databaseFailed(ctx, err, failures)
			continue
		}
		failures = 0
	}
}

func (c *claimer) wait(ctx context.Context, until time.Time) {
	var fires <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		fires = timer.C
	}
	select {
	case <-ctx.Done():
	case <-fires:
	case <-c.relay.board.woken:
	}
}

// claim reads the due deliveries of some endpoints, and begins these deliveries.
func (c *claimer) claim(ctx context.Context, asks []ask) error {
	b := c.relay.board
	byID := make(map[int64]*ask, len(asks))
	for i := range asks {
		byID[asks[i].target.id] = &asks[i]
	}
	found := map[*ask][]*delivery{}
	err := c.relay.query(ctx, c.relay.due(asks, true), func(row sqlplane.Row) error {
		d, endpoint, at, isDue, err := scanDue(row)
		if a := byID[endpoint]; err == nil && a != nil {
			// The rows of an endpoint come in order, so the first one is where the next claim begins.
			if a.first == nil {
				a.first = &at
			}
			// An ordered endpoint returns its first delivery even if it is not due.
			if d.target = a.target; isDue {
				found[a] = append(found[a], d)
			}
		}
		return err
	})
	var begin []*delivery
	more := map[*target]bool{}
	for i := range asks {
		a := &asks[i]
		list := found[a]
		a.read = err == nil
		// A result as long as the limit may not be complete.
		more[a.target] = err == nil && len(list) >= a.limit
		for _, d := range list {
			if a.want > 0 && b.isNew(a.target, d.event) {
				begin = append(begin, d)
				a.want--
			}
		}
	}
	if err == nil {
		err = c.begin(ctx, begin, more)
	}
	now := time.Now()
	for _, a := range asks {
		// An endpoint without a due delivery is asked again as well, because a hint can be missed.
		at := now.Add(askEvery)
		if more[a.target] {
			at = now
		}
		b.claimed(a, at)
	}
	return err
}

// scanDue scans a row of [Relay.due].
func scanDue(row sqlplane.Row) (d *delivery, endpoint int64, at bound, isDue bool, err error) {
	d = &delivery{}
	var due time.Time
	var come int
	err = row.Scan(&endpoint, &d.event, &d.attempts, &d.cause, (*dialect.Time)(&due), &come)
	d.due = due.UnixMicro()
	return d, endpoint, bound{d.due, d.event}, come == 1, err
}

// begin reads the events of deliveries, and begins the deliveries. It sets in more which endpoints have further
// due deliveries.
func (c *claimer) begin(ctx context.Context, list []*delivery, more map[*target]bool) error {
	for len(list) > 0 {
		// No place is free, so a read of the events would be for nothing.
		if !c.relay.board.anyPlace() {
			for _, d := range list {
				more[d.target] = true
			}
			return nil
		}
		n := min(len(list), c.readable())
		some := list[:n]
		list = list[n:]
		events, err := c.events(ctx, some)
		if err != nil {
			return err
		}
		var later []*delivery
		for _, d := range some {
			readable, err := c.beginOne(ctx, d, events[d.event], more)
			if err != nil {
				return err
			}
			if !readable {
				later = append(later, d)
			}
		}
		for _, d := range later { // the next deliveries may be unreadable as well, so the relay looks at the endpoint a moment later
			more[d.target] = false
		}
	}
	return nil
}

// beginOne begins a delivery of an event. A nil event was not found. If the event cannot be found or decrypted,
// the delivery waits, and this does not count as a failure of the endpoint.
func (c *claimer) beginOne(ctx context.Context, d *delivery, e *storedEvent, more map[*target]bool) (readable bool, err error) {
	r := c.relay
	if e == nil {
		// The read may come from a standby that has not yet replayed the commit of the event. The primary
		// decides whether the event exists.
		n, err := r.amend(ctx, d, "delete from once_webhook_delivery where not exists (select 1 from once_webhook_event v where v.id = ?)", d.event)
		return n > 0, err
	}
	data, err := r.hooks.open(e.data, e.encrypted, dataLabel(e.uid))
	if err != nil {
		r.tell(ctx, RelayEvent{Type: EventSealed, Tenant: e.tenant, Endpoint: d.target.uid, EventID: e.uid, Err: err})
		// The delivery waits for a moment: an operator may set the right key.
		_, err := r.amend(ctx, d, "update once_webhook_delivery set due_at = AGO(?) where due_at <= NOW", -sealedPause.Microseconds())
		return false, err
	}
	if !r.begin(ctx, d, e, data) {
		more[d.target] = true
	}
	return true, nil
}

// readable returns how many events are read at once: at most a quarter of MaxBytes, and fewer if the last
// events were large.
func (c *claimer) readable() int {
	most := int(min(c.relay.cfg.MaxBytes/4/int64(c.relay.hooks.MaxData), readMost))
	return max(1, min(most, readBytes/max(c.largest, 1<<10)))
}

// storedEvent is an event as the database stores it.
type storedEvent struct {
	uid, tenant, kind, trace string
	data                     []byte
	encrypted                bool
}

// events reads the events of deliveries. It reads each event once, even if many endpoints get the event.
func (c *claimer) events(ctx context.Context, list []*delivery) (events map[int64]*storedEvent, err error) {
	ids := make([]int64, 0, len(list))
	events = map[int64]*storedEvent{}
	for _, d := range list {
		if _, twice := events[d.event]; !twice {
			events[d.event] = nil
			ids = append(ids, d.event)
		}
	}
	// Until here the map has only found duplicates.
	clear(events)
	// The estimate decreases, so one large event keeps the reads small only for a while.
	c.largest -= c.largest / 8
	listed, args := c.relay.listed("id", ids)
	err = c.relay.query(ctx, c.relay.text("select id, uid, tenant, type, trace, data, encrypted from once_webhook_event where "+listed, args...), func(row sqlplane.Row) error {
		var id int64
		e := &storedEvent{}
		err := row.Scan(&id, &e.uid, &e.tenant, &e.kind, &e.trace, &e.data, &e.encrypted)
		events[id] = e
		c.largest = max(c.largest, len(e.data))
		return err
	})
	return events, err
}

// begin begins a delivery if this process holds its part and a place is free. Otherwise the row of the delivery
// stays as it is.
func (r *Relay) begin(ctx context.Context, d *delivery, e *storedEvent, data []byte) bool {
	held, done := r.holder.Use([]int{d.target.part})
	if len(held) == 0 {
		done()
		return true // because another process delivers it
	}
	d.part, d.done = held[0], done
	d.uid, d.tenant, d.kind, d.trace, d.bytes = e.uid, e.tenant, e.kind, e.trace, int64(len(data))
	s, started := r.board.start(d)
	if !started {
		done()
		return false
	}
	r.sending.Go(func() { r.deliver(ctx, d, &s, data) })
	return true
}

// deliver makes one attempt, and passes its outcome to a settler.
func (r *Relay) deliver(ended context.Context, d *delivery, s *settings, data []byte) {
	// The end of Run must not cut off a request that the endpoint may have received.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ended), r.cfg.Timeout)
	defer cancel()
	drained := context.AfterFunc(ended, func() { // running deliveries may go on for one TTL after the end of Run
		if sleep.For(ctx, r.cfg.TTL) {
			cancel()
		}
	})
	slow := time.AfterFunc(slowAfter, func() { r.board.isSlow(d) })
	q := request{url: s.url, headers: s.headers, signer: s.signerAt(time.Now()), id: d.uid, data: data}
	d.answer = r.traced(ctx, d, &q)
	d.answer.Cause = d.cause
	d.cut = ctx.Err() == context.Canceled && d.answer.Status == 0
	slow.Stop()
	drained()
	r.board.ended(d)
	// Neither case says anything about the endpoint. The row stays as it is, and the delivery is due again.
	if d.cut || d.ours {
		if d.ours {
			r.tell(ctx, RelayEvent{Type: EventOurs, Tenant: d.tenant, Endpoint: d.target.uid, EventID: d.uid, EventType: d.kind, Attempt: d.attempts + 1, Duration: d.answer.Duration, Err: d.answer.err})
		}
		r.board.settled(d)
		d.done()
		return
	}
	r.settlers[d.lane()].add(d)
}

// amend changes the row of a delivery that has not begun, if this process still holds the part and no other
// transaction has locked the row. It returns the number of changed rows, 0 or 1.
func (r *Relay) amend(ctx context.Context, d *delivery, change string, values ...any) (n int64, err error) {
	held, done := r.holder.Use([]int{d.target.part})
	defer done()
	ctx, cancel := context.WithTimeout(ctx, statementTime)
	defer cancel()
	err = r.db.Within(ctx, store.ReadCommitted, func(ctx context.Context, tx sqlplane.Runner) error {
		free := false
		// A wait for a locked row would delay the deliveries of all other endpoints. The next claim finds the row again.
		err := tx.Query(ctx, r.text("select 1 from once_webhook_delivery where endpoint = ? and event = ? FOR UPDATE SKIP LOCKED", d.target.id, d.event), func(sqlplane.Row) error { free = true; return nil })
		if err != nil || !free {
			return err
		}
		still, args := hold.StillHeld(holdTable, holdWork, "part", held)
		n, err = tx.Exec(ctx, r.text(change+" and endpoint = ? and event = ? and "+still, append(append(values, d.target.id, d.event), args...)...))
		return err
	})
	return n, err
}

// listed returns the condition that column is one of ids.
func (r *Relay) listed(column string, ids []int64) (condition string, args []any) {
	if r.db.Dialect() == sqlplane.PostgreSQL {
		rows := make([][]any, len(ids))
		for i, id := range ids {
			rows[i] = []any{id}
		}
		return column + " = any(?::text::bigint[])", dialect.Arrays(rows)
	}
	var list strings.Builder
	for i, id := range ids {
		if i > 0 {
			list.WriteByte(',')
		}
		list.WriteString(strconv.FormatInt(id, 10))
	}
	return column + " in (" + list.String() + ")", nil
}
