package outbox

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/oncelib/once/internal/base/sleep"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// Pauses and limits of the reads that find messages.
const (
	minIdle   = 5 * time.Millisecond // after an empty read; the pause grows slowly, because a relay with little load has empty reads now and then
	maxIdle   = time.Second
	reloads   = time.Second            // between two reads of the paused topics and keys
	scanPause = 500 * time.Millisecond // between scans
	lookBack  = 4 * minIdle            // between two reads of ids that were already read, to find late commits
	tailRows  = 1000                   // the maximum number of rows of one read of new messages
	tailIDs   = 1 << 14                // the maximum range of ids of such a read on PostgreSQL
	scanRows  = 1000                   // the maximum number of queues of one scan
)

// finder finds the queues that have new messages. It reads only the new rows of each part, so its cost does not
// depend on the backlog.
type finder struct {
	relay    *Relay
	started  bool
	high     int64 // the highest id that was read
	low      int64 // an older value of high; the ids above it are read again, because transactions do not commit in the order of their ids
	next     int64 // the next value of low
	agedAt   time.Time
	backAt   time.Time // when low was last the start of a read
	pausedAt time.Time
	jumpedAt time.Time
}

// run looks for messages until ctx ends.
func (f *finder) run(ctx context.Context) {
	failures, idle := 0, minIdle
	for ctx.Err() == nil {
		began := time.Now()
		found, err := f.find(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			failures++
			f.relay.databaseFailed(ctx, err, failures)
			continue
		}
		failures = 0
		// While messages arrive, the next read follows at once.
		if found || f.wait(ctx, idle) {
			idle = minIdle
			sleep.For(ctx, minPace-time.Since(began))
		} else {
			idle = min(idle+idle/4, maxIdle)
		}
	}
}

// wait waits for the time d, and reports whether a commit has ended the wait earlier.
func (f *finder) wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-f.relay.woken:
		return true
	}
	return false
}

// find updates the board with the held parts, and reads the new rows of these parts.
func (f *finder) find(ctx context.Context) (found bool, err error) {
	held, done := f.relay.holder.Use(allParts)
	defer done()
	changed := f.relay.board.hold(held)
	if len(held) == 0 {
		return false, nil
	}
	if time.Since(f.pausedAt) >= reloads {
		if err := f.readPaused(ctx); err != nil {
			return false, err
		}
	}
	if !f.started { // the scan finds the older messages
		if f.high, err = f.relay.highest(ctx); err != nil {
			return false, err
		}
		f.low, f.next, f.started = f.high, f.high, true
	}
	// A part that was just taken may have messages below the mark. Only the scan finds them.
	if changed {
		notify(f.relay.scanNow)
	}
	return f.readTails(ctx)
}

// readTails finds the queues with messages above the ids that were already read. From time to time it also
// reads the last ids again, to find late commits.
func (f *finder) readTails(ctx context.Context) (more bool, err error) {
	parts := f.relay.board.knownParts()
	if len(parts) == 0 {
		return false, nil
	}
	began := time.Now()
	// A transaction with a lower id may commit after this read. Therefore some reads begin at a lower id.
	low := f.high
	if began.Sub(f.backAt) >= lookBack {
		f.backAt, low = began, f.low
	}
	high := f.high
	found := map[queueKey]*[2]int64{}
	err = f.relay.try(ctx, func(ctx context.Context) error {
		return f.relay.db.Pool().Query(ctx, f.relay.tails(parts, low), func(row sqlplane.Row) error {
			var key queueKey
			var id int64
			if err := row.Scan(&key.part, &key.topic, &id); err != nil {
				return err
			}
			high = max(high, id)
			if found[key] == nil {
				found[key] = &[2]int64{id, id}
			}
			found[key][0], found[key][1] = min(found[key][0], id), max(found[key][1], id)
			return nil
		})
	})
	if err != nil {
		return false, err
	}
	for key, ids := range found {
		f.relay.board.foundRows(key.topic, key.part, ids[0], ids[1], false, began)
	}
	// Transactions with lower ids are assumed to have committed after this time.
	if began.Sub(f.agedAt) >= commits {
		f.low, f.next, f.agedAt = f.next, f.high, began
	}
	if high > f.high {
		f.high = high
		return true, nil
	}
	return false, f.jump(ctx, parts)
}

// jump skips a gap of ids without messages. One read covers a limited range of ids, so the gap would stop the
// relay.
func (f *finder) jump(ctx context.Context, parts []int) error {
	// On other databases the bound is a number of rows, and a gap in the ids does not stop a read.
	if f.relay.db.Dialect() != sqlplane.PostgreSQL || time.Since(f.jumpedAt) < commits {
		return nil
	}
	f.jumpedAt = time.Now()
	return f.relay.try(ctx, func(ctx context.Context) error {
		return f.relay.db.Pool().Query(ctx, f.relay.lowestAbove(parts, f.high), func(row sqlplane.Row) error {
			var id int64
			err := row.Scan(&id)
			// The gap is longer than one read.
			if id > f.high+tailIDs {
				f.high = id - 1
			}
			return err
		})
	})
}

// readPaused reads the paused topics and keys.
func (f *finder) readPaused(ctx context.Context) error {
	began := time.Now()
	paused := map[stream]struct{}{}
	err := f.relay.try(ctx, func(ctx context.Context) error {
		return f.relay.db.Pool().Query(ctx, f.relay.text("select topic, KEY from once_outbox_paused"), func(row sqlplane.Row) error {
			var s stream
			err := row.Scan(&s.topic, &s.key)
			paused[s] = struct{}{}
			return err
		})
	})
	if err == nil {
		f.relay.board.setPaused(paused)
		// The pause counts from the beginning of the read, because the result lacks the pauses that a person
		// adds later.
		f.pausedAt = began
	}
	return err
}

// highest returns the highest id.
func (r *Relay) highest(ctx context.Context) (id int64, err error) {
	const last = "select coalesce(max(m.id), 0) from generate_series(0, 63) p cross join lateral (select id from once_outbox where part = p::smallint order by part desc, id desc limit 1) m"
	q := r.query().pick(last, "select coalesce(max(id), 0) from once_outbox", "select coalesce(max(id), 0) from once_outbox")
	err = r.try(ctx, func(ctx context.Context) error {
		return r.db.Pool().Query(ctx, q.statement(), func(row sqlplane.Row) error { return row.Scan(&id) })
	})
	return id, err
}

// ofParts writes a select with one range of an index for each of the parts, because no index has the ids of all
// parts in one order.
func (q *query) ofParts(parts []int, columns, sub string) *query {
	list := make([]string, len(parts))
	for i, n := range parts {
		list[i] = strconv.Itoa(n)
	}
	q.write("select ", columns, " from unnest(").arg("{" + strings.Join(list, ",") + "}")
	return q.write("::text::smallint[]) x(part) cross join lateral (", sub, " from once_outbox where part = x.part and id > ")
}

// lowestAbove selects the lowest id above the given id in some parts, or 0 if none exists.
func (r *Relay) lowestAbove(parts []int, id int64) store.Statement {
	return r.query().ofParts(parts, "coalesce(min(m.id), 0)", "select id").arg(id).write(" order by part, id limit 1) m").statement()
}

// tails selects part, topic and id of the messages of parts above an id. On PostgreSQL the statement covers at
// most tailIDs ids.
func (r *Relay) tails(parts []int, low int64) store.Statement {
	q := r.query()
	if q.dialect != sqlplane.PostgreSQL {
		q.write("select part, topic, id from once_outbox").pick("", " force index (once_outbox_id)", "")
		return q.write(" where id > ", strconv.FormatInt(low, 10), " order by id limit ", strconv.Itoa(tailRows)).statement()
	}
	q.ofParts(parts, "m.part, m.topic, m.id", "select part, topic, id").arg(low)
	return q.write(" and id <= ").arg(low + tailIDs).write(" offset 0) m").statement() // offset 0 keeps the planner from another join order, which would read the whole table
}

// scan finds all queues that have messages, by one index entry for each queue. A relay needs the scan when it
// starts, when it takes parts, and for transactions that have committed late. The scan repeats until ctx ends.
func (r *Relay) scan(ctx context.Context) {
	failures := 0
	for ctx.Err() == nil {
		began := time.Now()
		err := r.scanAll(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			failures++
			r.databaseFailed(ctx, err, failures)
			continue
		}
		failures = 0
		r.board.forget()
		// A slow scan must not take more than its share of the time.
		waitUntil(ctx, r.scanNow, time.Now().Add(max(scanPause, share*time.Since(began))))
	}
}

// scanAll finds the queues with failures, and afterwards all queues with messages.
func (r *Relay) scanAll(ctx context.Context) error {
	unknown := r.board.unknownParts()
	// The failures come first: until they are known, a later message of a failed key could be delivered too
	// early.
	if err := r.scanFailures(ctx); err != nil {
		return err
	}
	if len(unknown) > 0 {
		r.board.know(unknown)
		notify(r.woken)
	}
	var topic string
	part := -1
	// A full page says that more queues may follow. The last row says where the next page begins.
	for n := scanRows; n >= scanRows; {
		began := time.Now()
		n = 0
		err := r.try(ctx, func(ctx context.Context) error {
			return r.db.Pool().Query(ctx, r.queues(topic, part), func(row sqlplane.Row) error {
				var id int64
				if err := row.Scan(&topic, &part, &id); err != nil {
					return err
				}
				n++
				r.board.foundRows(topic, part, id, id, true, began)
				return nil
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// scanFailures finds the queues with failures.
func (r *Relay) scanFailures(ctx context.Context) error {
	began := time.Now()
	var list []rangeOf
	err := r.try(ctx, func(ctx context.Context) error {
		return r.db.Pool().Query(ctx, r.failedQueues(), func(row sqlplane.Row) error {
			var name string
			var part int
			if err := row.Scan(&part, &name); err != nil {
				return err
			}
			// Another process may hold the part.
			if q := r.board.held(name, part); q != nil {
				list = append(list, rangeOf{queue: q, rows: maxFailing})
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	found := map[queueKey]int{}
	for _, some := range r.chunks(list) {
		err := r.try(ctx, func(ctx context.Context) error {
			return r.db.Pool().Query(ctx, r.countFailing(some), func(row sqlplane.Row) error {
				var i, n int
				err := row.Scan(&i, &n)
				q := some[i].queue
				found[queueKey{q.topic.name, q.part.Number}] = n
				return err
			})
		})
		if err != nil {
			return err
		}
	}
	r.board.foundFailures(found, began)
	return nil
}

// queues selects the first queues after the given one, with the id of their first message. The statement is a
// loose index scan: it reads one index entry for each queue.
func (r *Relay) queues(topic string, part int) store.Statement {
	q := r.query()
	first := func(after string) {
		q.write("select topic, part, id from once_outbox", after, " order by topic, part, id limit 1")
	}
	switch q.dialect {
	case sqlplane.PostgreSQL:
		q.write("with recursive q as ((select topic, part, id from once_outbox where (topic, part) > (").arg(topic).write("::text, ").arg(int64(part)).write("::bigint)")
		q.write(" order by topic, part, id limit 1) union all select n.topic, n.part, n.id from q cross join lateral (")
		first(" where (topic, part) > (q.topic, q.part)")
		q.write(") n) select topic, part, id from q limit ", strconv.Itoa(scanRows))
	case sqlplane.SQLite:
		next := func(column string) {
			q.write("(select ", column, " from once_outbox indexed by once_outbox_queue where (topic, part) > (q.topic, q.part) order by topic, part, id limit 1)")
		}
		q.write("with recursive q(topic, part, id) as (select * from (select topic, part, id from once_outbox indexed by once_outbox_queue where (topic, part) > (").arg(topic).write(", ").arg(int64(part))
		q.write(") order by topic, part, id limit 1) union all select ")
		next("topic")
		q.write(", ")
		next("part")
		q.write(", ")
		next("id")
		q.write(" from q where q.topic is not null) select topic, part, id from q where topic is not null limit ", strconv.Itoa(scanRows))
	default: // MySQL reads one entry of each group
		q.write("select topic, part, min(id) from once_outbox force index (once_outbox_queue)")
		if topic != "" {
			q.write(" where topic > ").arg(topic).write(" or topic = ").arg(topic).write(" and part > ", strconv.Itoa(part))
		}
		q.write(" group by topic, part order by topic, part limit ", strconv.Itoa(scanRows))
	}
	return q.statement()
}

// failedQueues selects the queues with failures, by a loose index scan.
func (r *Relay) failedQueues() store.Statement {
	q := r.query()
	switch q.dialect {
	case sqlplane.PostgreSQL:
		q.write("with recursive q as ((select part, topic from once_outbox_failed order by part, topic, next_at limit 1) union all select n.part, n.topic from q cross join lateral (")
		q.write("select part, topic from once_outbox_failed where (part, topic) > (q.part, q.topic) order by part, topic, next_at limit 1) n) select part, topic from q")
	case sqlplane.SQLite:
		const next = " from once_outbox_failed indexed by once_outbox_failed_queue where (part, topic) > (q.part, q.topic) order by part, topic, next_at limit 1)"
		q.write("with recursive q(part, topic) as (select * from (select part, topic from once_outbox_failed indexed by once_outbox_failed_queue order by part, topic, next_at limit 1)")
		q.write(" union all select (select part", next, ", (select topic", next, " from q where q.part is not null) select part, topic from q where part is not null")
	default:
		q.write("select part, topic from once_outbox_failed force index (once_outbox_failed_queue) group by part, topic")
	}
	return q.statement()
}

// countFailing selects, for each queue of list, its position in list and the number of its failing messages, up
// to a limit.
func (r *Relay) countFailing(list []rangeOf) store.Statement {
	rows := make([][]any, len(list))
	for i, l := range list {
		rows[i] = []any{l.queue.topic.name, int64(l.queue.part.Number), int64(i), int64(l.rows)}
	}
	q := r.query()
	return q.each(rows, []string{"text", "smallint", "bigint", "bigint"}, func(value columnOf) {
		q.write("select ")
		value(2)
		q.write(" as n, count(*) as failing from (select 1 as one from once_outbox_failed").pick("", " force index (once_outbox_failed_queue)", " indexed by once_outbox_failed_queue")
		q.write(" where topic = ")
		value(0)
		q.write(" and part = ")
		value(1)
		q.write(" and next_at is not null order by next_at limit ")
		value(3)
		q.write(") c")
	}).statement()
}
