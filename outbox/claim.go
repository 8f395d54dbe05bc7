package outbox

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/oncelib/once/internal/base/sleep"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store/sqlplane"
)

// readAhead limits the rows of one read, as a number of batches. A unit counts as leastCost rows, although it
// may read leastRows, and the last unit may read a whole batch.
const readAhead = 1 + leastRows/leastCost

// minPace is the least time between two claims.
const minPace = time.Millisecond

// claimer reads the messages for units of one class, many units in one statement, and starts their publishing.
type claimer struct {
	relay    *Relay
	class    class
	limit    int // the maximum number of messages of one read; it adapts so that a read does not exceed maxBytes
	failures int
}

// run reads messages until ctx ends.
func (c *claimer) run(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		units, again := c.relay.board.pick(c.class)
		if len(units) == 0 {
			waitUntil(ctx, c.relay.board.woken[c.class], again)
			continue
		}
		for _, units := range byWork(units) {
			if err := c.read(ctx, units); err != nil {
				c.giveBack(units)
				if ctx.Err() == nil {
					c.failures++
					c.relay.databaseFailed(ctx, err, c.failures)
				}
				continue
			}
			c.failures = 0
		}
		// Messages that are committed within this time share one statement.
		sleep.For(ctx, minPace-time.Since(began))
	}
}

// waitUntil returns when woken has a value, when ctx ends, or at the given time if it is not zero.
func waitUntil(ctx context.Context, woken <-chan struct{}, at time.Time) {
	var due <-chan time.Time
	if !at.IsZero() {
		timer := time.NewTimer(time.Until(at))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
	case <-woken:
	case <-due:
	}
}

// byWork groups units by their kind of work.
func byWork(units []*unit) (groups [][]*unit) {
	slices.SortStableFunc(units, func(a, b *unit) int { return cmp.Compare(a.work, b.work) })
	for len(units) > 0 {
		n := slices.IndexFunc(units, func(u *unit) bool { return u.work != units[0].work })
		if n < 0 {
			n = len(units)
		}
		groups = append(groups, units[:n])
		units = units[n:]
	}
	return groups
}

// giveBack returns units to the board, because their messages could not be read.
func (c *claimer) giveBack(units []*unit) {
	for _, u := range units {
		c.relay.board.giveBack(u)
		u.letGo()
	}
}

// read reads the messages of units that do the same kind of work, and starts their publishing.
func (c *claimer) read(ctx context.Context, units []*unit) error {
	// The hold must not end while the unit works, so that no other process delivers the same messages.
	for _, u := range units {
		c.relay.use(u)
	}
	lost := func(u *unit) bool { return len(u.ranges) == 0 }
	for _, u := range units {
		if lost(u) {
			c.giveBack([]*unit{u})
		}
	}
	if units = slices.DeleteFunc(units, lost); len(units) == 0 {
		return nil
	}
	began := time.Now()
	var items []*item
	var cut bool
	var err error
	switch units[0].work {
	case workRetry:
		items, cut, err = c.retry(ctx, units)
	case workFreed:
		items, cut, err = c.freed(ctx, units)
	default:
		items, cut, err = c.above(ctx, units)
	}
	if err != nil {
		return err
	}
	c.share(units, items, cut)
	if err := c.relay.order(ctx, units); err != nil {
		return err
	}
	took := time.Since(began)
	for _, u := range units {
		u.took = took
		c.relay.start(ctx, u)
	}
	return nil
}

// use keeps the parts of a unit while the unit works, and removes the queues of lost parts from the unit.
func (r *Relay) use(u *unit) {
	var numbers []int
	for _, q := range u.queues {
		numbers = append(numbers, q.part.Number)
	}
	held, done := r.holder.Use(numbers)
	u.letGo = done
	if len(held) < len(numbers) || slices.ContainsFunc(u.queues, func(q *queue) bool { return !slices.Contains(held, q.part) }) {
		r.board.leave(u, held)
	}
}

// queueKey names a queue.
type queueKey struct {
	topic string
	part  int
}

// share gives items to their units. If the limit on bytes has cut the list of items, share makes the relay read
// the remaining messages again.
func (c *claimer) share(units []*unit, items []*item, cut bool) {
	unitOf, queueOf := map[queueKey]*unit{}, map[queueKey]*queue{}
	for _, u := range units {
		for _, q := range u.queues {
			key := queueKey{u.topic.name, q.part.Number}
			unitOf[key], queueOf[key] = u, q
		}
	}
	for _, it := range items {
		key := queueKey{it.message.Topic, it.part}
		if u := unitOf[key]; u != nil {
			it.queue = queueOf[key]
			u.items = append(u.items, it)
		}
	}
	bytes := 0
	for _, it := range items {
		bytes += len(it.message.Payload) + len(it.headers)
	}
	if !cut {
		if bytes < maxBytes/2 {
			// Messages are small again, so the next read may fetch more.
			c.limit = min(2*c.limit, readAhead*c.relay.cfg.Batch)
		}
		return
	}
	c.limit = max(1, len(items)) // the next read asks for fewer messages, so that the database does not send messages that are dropped
	for _, u := range units {
		found := map[*queue]int{}
		for _, it := range u.items {
			found[it.queue]++
		}
		for _, q := range u.queues {
			q.asked = min(q.asked, found[q]) // fewer items than rows would mean that the queue has no more messages
		}
	}
}

// above reads messages by their ids: above the marks of the queues, or as pages of waiting messages.
func (c *claimer) above(ctx context.Context, units []*unit) (items []*item, cut bool, err error) {
	var list []rangeOf
	trouble := false
	left := c.limit
	for _, u := range units {
		trouble = trouble || u.blocked
		for _, of := range u.ranges {
			of.rows = min(of.rows, max(1, left))
			left -= of.rows
			of.queue.asked = of.rows
			list = append(list, of)
		}
	}
	for _, some := range c.relay.chunks(list) {
		read, full, err := c.relay.read(ctx, c.relay.above(some, trouble))
		if err != nil {
			return nil, false, err
		}
		if items = append(items, read...); full {
			// The limit on bytes is reached. The next claim reads the remaining ranges.
			return items, true, nil
		}
	}
	return items, false, nil
}

// chunks splits a list into parts for one statement each, because a database plans a long union slowly.
func (r *Relay) chunks(list []rangeOf) (chunks [][]rangeOf) {
	most := maxQueues
	if r.db.Dialect() != sqlplane.PostgreSQL {
		// Outside PostgreSQL the statement is a union with one select for each queue.
		most /= 4
	}
	return slices.Collect(slices.Chunk(list, most))
}

// freed reads the messages of keys that wait for no other message any more. For each key, freed stops before
// the first message that has failed or is in another part.
func (c *claimer) freed(ctx context.Context, units []*unit) (items []*item, cut bool, err error) {
	const most = 32
	var streams []stream
	of := map[stream]*queue{}
	rows := 0
	for _, u := range units {
		rows += u.most
		for _, f := range u.freed {
			if s := (stream{u.topic.name, f.key}); len(streams) < most && of[s] == nil {
				streams, of[s] = append(streams, s), f.queue
			}
		}
	}
	if len(streams) == 0 {
		return nil, false, nil
	}
	each := max(1, min(c.limit, rows)/len(streams))
	read, cut, err := c.relay.read(ctx, c.relay.byKey(streams, each))
	if err != nil {
		return nil, false, err
	}
	found, ended := map[stream]int{}, map[stream]bool{}
	for _, it := range read {
		s := streamOf(&it.message)
		if q := of[s]; ended[s] || it.blocked || it.part != q.part.Number {
			// A later message of the key must not overtake the blocked message.
			ended[s] = true
			continue
		}
		found[s]++
		items = append(items, it)
	}
	var done []keyOf // a page finds the remaining messages of these keys
	for _, s := range streams {
		if ended[s] && found[s] == 0 || !ended[s] && found[s] < each && !cut {
			done = append(done, keyOf{of[s], s.key})
		}
	}
	c.relay.board.isRead(done)
	return items, cut, nil
}

// retry reads the failed messages whose next attempt is due.
func (c *claimer) retry(ctx context.Context, units []*unit) (items []*item, cut bool, err error) {
	var list []rangeOf
	queues := map[queueKey]*queue{}
	for _, u := range units {
		for _, of := range u.ranges {
			list = append(list, of)
			queues[queueKey{u.topic.name, of.queue.part.Number}] = of.queue
		}
	}
	failures := map[messageID]*failure{}
	var ids []messageID
	for _, some := range c.relay.chunks(list) {
		err := c.relay.readDue(ctx, some, queues, func(id messageID, f *failure) {
			if len(ids) < c.limit {
				failures[id], ids = f, append(ids, id)
			}
		})
		if err != nil {
			return nil, false, err
		}
	}
	if len(ids) == 0 {
		return nil, false, nil
	}
	items, cut, err = c.relay.read(ctx, c.relay.byID(ids))
	if err != nil {
		return nil, false, err
	}
	for _, it := range items {
		id := messageID{it.part, it.id}
		it.failure = failures[id]
		delete(failures, id)
	}
	if !cut && len(failures) > 0 { // the messages of the remaining failures were deleted, for example by another process
		err = c.relay.removeOrphans(ctx, failures, list)
	}
	return items, cut, err
}

// readDue reads failures, calls each for the due ones, and sets when the relay reads the failures of the queues
// again.
func (r *Relay) readDue(ctx context.Context, list []rangeOf, queues map[queueKey]*queue, each func(messageID, *failure)) error {
	found := map[*queue]int{}
	again := map[*queue]time.Time{}
	err := r.try(ctx, func(ctx context.Context) error {
		return r.db.Pool().Query(ctx, r.due(list), func(row sqlplane.Row) error {
			var id messageID
			var topic string
			var since, next, now dialect.Time
			f := new(failure)
			if err := row.Scan(&id.part, &id.id, &topic, &f.attempts, &since, &next, &now); err != nil {
				return err
			}
			q := queues[queueKey{topic, id.part}]
			if q == nil {
				return nil
			}
			found[q]++
			// The times in the row are by the clock of the database. Only their distance to its now has a
			// meaning here.
			local := func(t dialect.Time) time.Time { return time.Now().Add(time.Time(t).Sub(time.Time(now))) }
			if at := local(next); time.Time(next).After(time.Time(now)) {
				if again[q].IsZero() || at.Before(again[q]) {
					again[q] = at
				}
				return nil
			}
			f.since = local(since)
			each(id, f)
			return nil
		})
	})
	// Also after an error, so that the failures are not read again without a pause.
	now, poll := time.Now(), r.board.poll()
	for _, l := range list {
		q := l.queue
		q.retryAt = now.Add(poll)
		switch at := again[q]; {
		case found[q] >= l.rows && at.IsZero():
			// The statement was full of due failures, so more may be due.
			q.retryAt = now
		case !at.IsZero() && at.Before(q.retryAt):
			q.retryAt = at.Add(time.Millisecond) // databases store no more than milliseconds
		}
	}
	return err
}
