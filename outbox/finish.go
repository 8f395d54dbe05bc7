package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/sql/hold"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// patience limits the time of a statement about several topics: another transaction may have locked rows of one
// topic, and may stay open for long.
const patience = 2 * time.Second

// errLocked says that a statement was cancelled when its patience had passed.
var errLocked = errors.New("the relay cannot write the outcomes of deliveries: another transaction has locked rows of the outbox, or the database is slow")

// finishing is how many statements of a class run at the same time: one statement writes while another one
// waits for its commit. With more of them, each statement would have fewer rows, and the statements would
// compete for pages and processors.
const finishing = 2

// finisher writes the outcomes of units of one class, many units in one statement. Each statement checks that
// this process still holds the parts. If rows of a topic are locked, the units of this topic go to a separate
// finisher. It writes one topic at a time, so that an open transaction does not delay other topics.
type finisher struct {
	relay *Relay
	mu    sync.Mutex
	units []*unit
	ended bool // deliveries add no more units
	woken chan struct{}
}

func newFinisher(r *Relay) *finisher { return &finisher{relay: r, woken: make(chan struct{}, 1)} }

// finisherOf returns the finisher of a unit. A unit with failures goes to the finisher of topics in trouble, so
// that failures are never in one statement with messages of healthy topics.
func (r *Relay) finisherOf(u *unit) *finisher {
	bad := func(it *item) bool { return it.outcome == outcomeFailed || it.failure != nil }
	if u.class == classTrouble || slices.ContainsFunc(u.items, bad) {
		return r.finishers[classTrouble]
	}
	return r.finishers[classHealthy]
}

func (s *finisher) add(units ...*unit) {
	s.mu.Lock()
	s.units = append(s.units, units...)
	s.mu.Unlock()
	notify(s.woken)
}

// end makes run return after all units are finished.
func (s *finisher) end() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	notify(s.woken)
}

// take returns the units for the next statement. The result ok reports that more units may follow.
func (s *finisher) take() (units []*unit, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows := 0
	for len(s.units) > 0 && (rows == 0 || rows+len(s.units[0].items) <= s.relay.cfg.Batch) {
		// An open transaction on one topic must not delay another topic.
		if s == s.relay.locked && rows > 0 && s.units[0].topic != units[0].topic {
			break
		}
		rows += len(s.units[0].items)
		units = append(units, s.units[0])
		s.units = s.units[1:]
	}
	if len(s.units) > 0 || s.ended {
		notify(s.woken) // wakes another goroutine in run
	}
	return units, len(units) > 0 || !s.ended
}

// run writes outcomes until end is called and no unit is left. Several goroutines can call run.
func (s *finisher) run(ctx context.Context) {
	for {
		units, ok := s.take()
		switch {
		case !ok:
			return
		case len(units) == 0:
			<-s.woken
			continue
		}
		for _, u := range s.finish(ctx, units) {
			if u.waits > 0 {
				u.topic.locked.Add(-1)
			}
			s.relay.board.finished(u)
			s.relay.tellFull(ctx, u.topic)
			u.letGo()
		}
	}
}

// finish writes the outcomes of the items of units, and returns the units that are done. After an error other
// than errLocked, the relay does not know which outcomes were written. It may deliver such messages again.
func (s *finisher) finish(ctx context.Context, units []*unit) (finished []*unit) {
	most, locked := patience, s.relay.locked
	if s == locked {
		most = min(patience<<min(units[0].waits, 4), statementTime) // each try gets more time, because the database may be slow rather than locked
	} else {
		// Rows of these topics were locked a moment ago, so their units wait in the other finisher.
		units = slices.DeleteFunc(units, func(u *unit) bool { return u.topic.locked.Load() > 0 && locked.wait(u) })
	}
	err := s.writeDown(ctx, units, most)
	switch {
	case err == nil:
		return units
	case !errors.Is(err, errLocked) || s == locked && ctx.Err() != nil: // Run ends, and the database still does not answer
		s.relay.tell(ctx, Event{Type: EventDatabase, Err: err})
		return units
	}
	byTopic := map[*topic][]*unit{}
	for _, u := range units {
		byTopic[u.topic] = append(byTopic[u.topic], u)
	}
	for t, units := range byTopic {
		// Only one topic may be locked: each topic gets its own statement, to find out which.
		if len(byTopic) > 1 {
			finished = append(finished, s.finish(ctx, units)...)
			continue
		}
		if s == locked {
			s.relay.tell(ctx, Event{Type: EventDatabase, Err: fmt.Errorf("topic %q: %w", t.name, err)})
		}
		for _, u := range units {
			locked.wait(u)
		}
	}
	return finished
}

// wait queues a unit in the finisher of locked topics. It returns true, for use in a condition.
func (s *finisher) wait(u *unit) bool {
	if u.waits == 0 {
		u.topic.locked.Add(1)
	}
	u.waits++
	s.add(u)
	return true
}

// writeDown writes the outcomes of units with one statement for the delivered items and one for the failed
// items.
func (s *finisher) writeDown(ctx context.Context, units []*unit, most time.Duration) error {
	var delivered, failed []*item
	again := false
	for _, u := range units {
		again = again || u.waits > 0
		for _, it := range u.items {
			if it.written {
				// An earlier try has written this item. The other statement of that try was cancelled.
				continue
			}
			switch it.outcome {
			case outcomeDelivered:
				delivered = append(delivered, it)
			case outcomeFailed:
				failed = append(failed, it)
			case outcomeLeft, outcomeWaits:
			}
		}
	}
	return errors.Join(s.relay.delivered(ctx, delivered, most, again), s.relay.failed(ctx, failed, most))
}

// delivered deletes delivered messages, or moves them to the table of kept messages. The parameter again says
// that an earlier call may already have written them.
func (r *Relay) delivered(ctx context.Context, items []*item, most time.Duration, again bool) error {
	if len(items) == 0 {
		return nil
	}
	held := heldBy(items)
	var removed int64
	tries := 0
	err := r.write(ctx, most, func(ctx context.Context) (err error) {
		tries++
		removed, err = r.removeWithLetters(ctx, items, held)
		return err
	})
	if err != nil {
		return err
	}
	// After a second try, a smaller number proves nothing: the first try may have been applied.
	if tries == 1 && !again && removed != int64(len(items)) { // another process has taken a part, for example
		r.board.doubt(held)
	}
	for _, it := range items {
		it.written = true
		r.cfg.Policy.Budget.Succeed()
		r.told(ctx, EventDelivered, it, nil, time.Time{})
	}
	return nil
}

func (r *Relay) remove(ctx context.Context, ids []messageID, failed bool, held []hold.Part) (removed int64, err error) {
	// This needs only one statement, and one statement needs no transaction.
	if r.db.Dialect() == sqlplane.PostgreSQL || r.keep == 0 && !failed {
		return r.removeIn(ctx, r.db.Pool(), ids, failed, held)
	}
	err = r.db.Within(ctx, store.ReadCommitted, func(ctx context.Context, tx sqlplane.Runner) (err error) {
		removed, err = r.removeIn(ctx, tx, ids, failed, held)
		return err
	})
	return removed, err
}

// removeIn does the work of remove with the statements of tx. The parameter failed says that some messages may
// have failures.
func (r *Relay) removeIn(ctx context.Context, tx sqlplane.Runner, ids []messageID, failed bool, held []hold.Part) (removed int64, err error) {
	listed, args := r.listed(ids)
	still, more := hold.StillHeld(hold.Table, workName, "once_outbox.part", held)
	where, args := listed+" and "+still, append(args, more...)
	const into = "insert into once_outbox_sent (" + storedColumns + ", op_scope, op_key, sent_at) select " + storedColumns + ", op_scope, op_key, NOW from "
	if r.db.Dialect() == sqlplane.PostgreSQL {
		// A join in the order of the list: "in" would sort or hash the list, which costs more for each row.
		deleted := "delete from once_outbox using unnest(?::text::smallint[], ?::text::bigint[]) x(part, id) where once_outbox.part = x.part and once_outbox.id = x.id and " + still
		if r.keep == 0 && !failed {
			return tx.Exec(ctx, r.text(deleted, args...))
		}
		text := "with gone as (" + deleted + " returning once_outbox.*)"
		if failed {
			text += ", freed as (delete from once_outbox_failed f using gone where f.part = gone.part and f.id = gone.id)"
		}
		if r.keep == 0 {
			return tx.Exec(ctx, r.text(text+" select 1 from gone", args...))
		}
		return tx.Exec(ctx, r.text(text+" "+into+"gone", args...))
	}
	// The copy comes before the delete, in the same transaction.
	if r.keep > 0 {
		if _, err := tx.Exec(ctx, r.text(into+"once_outbox where "+where, args...)); err != nil {
			return 0, err
		}
	}
	deleted := r.text("delete from once_outbox where "+where, args...)
	if r.db.Dialect() == sqlplane.MySQL {
		// One row after the other: with another plan MySQL would scan the table, and wait for rows that are not
		// committed yet.
		deleted = r.text("delete once_outbox from "+mysqlTable(ids)+" x straight_join once_outbox on once_outbox.part = x.part and once_outbox.id = x.id where "+still, more...)
	}
	if removed, err = tx.Exec(ctx, deleted); err == nil && failed && removed > 0 {
		_, err = tx.Exec(ctx, r.removeFailures(ids, held))
	}
	return removed, err
}

// removeFailures deletes the failures of the messages with these ids.
func (r *Relay) removeFailures(ids []messageID, held []hold.Part) store.Statement {
	still, more := hold.StillHeld(hold.Table, workName, "once_outbox_failed.part", held)
	listed, args := r.listed(ids)
	switch r.db.Dialect() {
	case sqlplane.MySQL:
		return r.text("delete once_outbox_failed from "+mysqlTable(ids)+" x straight_join once_outbox_failed on once_outbox_failed.part = x.part and once_outbox_failed.id = x.id where "+still, more...)
	case sqlplane.SQLite: // the table has no index by id alone
		var list strings.Builder
		for i, m := range ids {
			if i > 0 {
				list.WriteByte(',')
			}
			fmt.Fprintf(&list, "(%d,%d)", m.part, m.id)
		}
		listed = "(part, id) in (values " + list.String() + ")"
	case sqlplane.PostgreSQL:
	}
	return r.text("delete from once_outbox_failed where "+listed+" and "+still, append(args, more...)...)
}

// mysqlTable returns the text of a table of MySQL with these ids.
func mysqlTable(ids []messageID) string {
	var list strings.Builder
	for i, m := range ids {
		if i > 0 {
			list.WriteByte(',')
		}
		fmt.Fprintf(&list, "[%d,%d]", m.part, m.id)
	}
	return "json_table('[" + list.String() + "]', '$[*]' columns (part smallint path '$[0]', id bigint path '$[1]'))"
}

// failed stores failures. The times of the next attempts are by the clock of the database.
func (r *Relay) failed(ctx context.Context, items []*item, most time.Duration) error {
	slices.SortFunc(items, func(a, b *item) int { return cmp.Or(cmp.Compare(a.part, b.part), cmp.Compare(a.id, b.id)) }) // all processes lock the rows in the same order, so that they do not deadlock
	for some := range slices.Chunk(items, maxQueues) {
		if err := r.failedSome(ctx, some, most); err != nil {
			return err
		}
	}
	return nil
}

func (r *Relay) failedSome(ctx context.Context, items []*item, most time.Duration) error {
	rows := make([][]any, len(items))
	var want int64
	for i, it := range items {
		f := failure{since: time.Now()}
		if it.failure != nil {
			f = *it.failure
		}
		f.attempts++
		wait, stopped := r.next(&f, it.err)
		micros := int64(-1)
		if it.nextAt = time.Now().Add(wait); stopped {
			it.nextAt = time.Time{}
		} else {
			micros = wait.Microseconds()
		}
		if want++; it.failure != nil && r.db.Dialect() == sqlplane.MySQL { // MySQL counts an updated row as two rows
			want++
		}
		rows[i] = []any{int64(it.part), it.id, it.message.Type, f.attempts, micros, errorText(it.err)}
	}
	held := heldBy(items)
	statement := r.insertFailures(rows, held)
	var written int64
	err := r.write(ctx, most, func(ctx context.Context) (err error) {
		written, err = r.writeFailures(ctx, statement, items)
		return err
	})
	switch {
	case err != nil:
		return err
	case written < want && len(items) > 1: // another process has taken a part, or a person has skipped a message: single statements find out which
		for _, it := range items {
			if err := r.failedSome(ctx, []*item{it}, most); err != nil {
				return err
			}
		}
		return nil
	case written == 0:
		// One item, and no row: this process does not hold the part any more, or a person has skipped the
		// message.
		r.board.doubt(held)
		return nil
	}
	for _, it := range items {
		it.written = true
		event := EventFailed
		if it.nextAt.IsZero() {
			event = EventStopped
		}
		r.told(ctx, event, it, it.err, it.nextAt)
	}
	return nil
}

// insertFailures returns the statement that stores failures. Each row has part, id, type, attempts,
// microseconds until the next attempt or -1, and error. If a person has skipped a message meanwhile, the
// message has another type, and the statement stores no failure for it.
func (r *Relay) insertFailures(rows [][]any, held []hold.Part) store.Statement {
	var from strings.Builder
	var args []any
	next := "NOW + x.wait / 1000"
	if r.db.Dialect() == sqlplane.PostgreSQL {
		next = "NOW + x.wait * interval '1 microsecond'"
		from.WriteString("unnest(?::text::smallint[], ?::text::bigint[], ?::text::text[], ?::text::bigint[], ?::text::bigint[], ?::text::text[]) x(part, id, type, attempts, wait, error) join once_outbox o")
		args = dialect.Arrays(rows)
	} else {
		from.WriteByte('(')
		for i, row := range rows {
			if i > 0 {
				from.WriteString(" union all ")
			}
			from.WriteString("select " + strconv.FormatInt(row[0].(int64), 10) + " as part, " + strconv.FormatInt(row[1].(int64), 10) + " as id, ? as type, ? as attempts, ? as wait, ? as error") //nolint:forcetypeassert // written above
			args = append(args, row[2:]...)
		}
		join := " cross join" // SQLite keeps its order
		if r.db.Dialect() == sqlplane.MySQL {
			join = " straight_join"
		}
		from.WriteString(") x" + join + " once_outbox o")
	}
	still, more := hold.StillHeld(hold.Table, workName, "o.part", held)
	lock := ""
	if r.db.Dialect() == sqlplane.PostgreSQL { // MySQL locks the rows that the select of an insert reads, and on SQLite only one transaction writes
		lock = " for share of o" // waits for a Skip that has not committed
	}
	return r.text(`insert into once_outbox_failed (part, id, topic, KEY, attempts, next_at, failed_at, error)
 select o.part, o.id, o.topic, o.KEY, x.attempts, case when x.wait < 0 then null else `+next+` end, NOW, x.error from `+from.String()+`
 on o.part = x.part and o.id = x.id and o.event_type = x.type where `+still+lock+`
 UPSERT(part, id) attempts = NEW(attempts), next_at = NEW(next_at), error = NEW(error)`, append(args, more...)...)
}

// removeOrphans deletes failures whose messages no longer exist.
func (r *Relay) removeOrphans(ctx context.Context, failures map[messageID]*failure, list []rangeOf) error {
	ids := slices.Collect(maps.Keys(failures))
	var held []hold.Part
	for _, of := range list {
		if !slices.Contains(held, of.queue.part) {
			held = append(held, of.queue.part)
		}
	}
	// In one order, so that processes do not deadlock.
	slices.SortFunc(held, func(a, b hold.Part) int { return cmp.Compare(a.Number, b.Number) })
	return r.try(ctx, func(ctx context.Context) error {
		_, err := r.db.Pool().Exec(ctx, r.removeFailures(ids, held))
		return err
	})
}

// write calls fn until fn succeeds. If one call takes longer than most, write returns errLocked. Each statement
// of fn must have the same effect when it runs again. After the end of Run, fn may be tried for one TTL.
func (r *Relay) write(ended context.Context, most time.Duration, fn func(context.Context) error) error {
	// The end of Run must not cancel a write: the messages are already delivered.
	ctx := context.WithoutCancel(ended)
	var until time.Time
	for failures := 1; ; failures++ {
		bounded, cancel := context.WithTimeout(ctx, most)
		err := fn(bounded)
		over := bounded.Err() != nil
		cancel()
		switch {
		case err == nil:
			return nil
		case over:
			return fmt.Errorf("%w (%w). Try: find the open transaction that has changed once_outbox, and end it", errLocked, err)
		}
		if ended.Err() != nil {
			// After one TTL another process may hold the parts, and the statements would change nothing.
			if until.IsZero() {
				until = time.Now().Add(r.cfg.TTL)
			}
			if time.Now().After(until) {
				return err
			}
		}
		r.databaseFailed(ctx, err, failures)
	}
}

// tellFull tells the observer once that a topic has too many failing messages, so that the relay reads no other
// messages of the topic.
func (r *Relay) tellFull(ctx context.Context, t *topic) {
	if r.board.newlyFull(t) {
		r.tell(ctx, Event{Type: EventStopped, Err: fmt.Errorf("topic %q has %d failing messages in one part of the outbox, so the relay reads no other messages of the topic in this part. Try: once outbox list --topic, and once outbox skip", t.name, maxFailing)})
	}
}

// told tells the observer the outcome of a message.
func (r *Relay) told(ctx context.Context, what EventType, it *item, err error, next time.Time) {
	m := it.message
	m.Delivery = it.attempt
	r.tell(ctx, Event{Type: what, Message: m, Err: err, NextAt: next})
}

// heldBy returns the parts of items, in the order of their numbers.
func heldBy(items []*item) []hold.Part {
	var held []hold.Part
	seen := map[hold.Part]bool{}
	for _, it := range items {
		if p := it.queue.part; !seen[p] {
			seen[p] = true
			held = append(held, p)
		}
	}
	slices.SortFunc(held, func(a, b hold.Part) int { return cmp.Compare(a.Number, b.Number) })
	return held
}

// errorText returns the text of an error in a form that every database can store.
func errorText(err error) string {
	const most = 2000
	// PostgreSQL stores no NUL character.
	text := strings.ReplaceAll(err.Error(), "\x00", "")
	if len(text) > most {
		text = text[:most]
	}
	// The cut may have split a character.
	return strings.ToValidUTF8(text, "?")
}
