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

// patience bounds a statement about several topics: another transaction may have locked rows of one of them, for as long as it is open.
const patience = 2 * time.Second

// errLocked says that a statement was given up after its patience.
var errLocked = errors.New("the relay cannot write the outcomes of deliveries: another transaction has locked rows of the outbox, or the database is slow")

// finishing is how many statements of a class run at the same time: one writes while another waits for its
// commit. With more, each statement would have fewer rows, and the statements would wait for each other's pages
// and for the processors.
const finishing = 2

// finisher writes the outcomes of units of one class, many of them in one statement. Each statement checks that
// this process still holds the parts. Units of a topic whose rows are locked are passed to a separate finisher,
// which writes one topic at a time, so that an open transaction does not delay other topics.
type finisher struct {
	relay *Relay
	mu    sync.Mutex
	units []*unit
	ended bool // deliveries add no more units
	woken chan struct{}
}

func newFinisher(r *Relay) *finisher { return &finisher{relay: r, woken: make(chan struct{}, 1)} }

// finisherOf returns the finisher of a unit: failures are never in one statement with messages of healthy topics.
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

// end lets run return when all units are finished.
func (s *finisher) end() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	notify(s.woken)
}

// take returns the units for one statement. ok reports that more may follow.
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
		notify(s.woken) // the next one of run
	}
	return units, len(units) > 0 || !s.ended
}

// run works until end is called. It may be called several times at once.
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

// finish writes the outcomes of the items of units, and returns the units that are done. After an error other than errLocked it is not known which
// outcomes were written: a message that was delivered may be delivered again.
func (s *finisher) finish(ctx context.Context, units []*unit) (finished []*unit) {
	most, locked := patience, s.relay.locked
	if s == locked {
		most = min(patience<<min(units[0].waits, 4), statementTime) // longer each time: the database may be slow
	} else {
		units = slices.DeleteFunc(units, func(u *unit) bool { return u.topic.locked.Load() > 0 && locked.wait(u) })
	}
	err := s.writeDown(ctx, units, most)
	switch {
	case err == nil:
		return units
	case !errors.Is(err, errLocked) || s == locked && ctx.Err() != nil: // Run ends, and the database does not answer
		s.relay.tell(ctx, Event{Type: EventDatabase, Err: err})
		return units
	}
	byTopic := map[*topic][]*unit{}
	for _, u := range units {
		byTopic[u.topic] = append(byTopic[u.topic], u)
	}
	for t, units := range byTopic {
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

// wait queues a unit until its rows are not locked any more. It returns true.
func (s *finisher) wait(u *unit) bool {
	if u.waits == 0 {
		u.topic.locked.Add(1)
	}
	u.waits++
	s.add(u)
	return true
}

// writeDown is finish with one statement for the delivered items, and one for the failed items.
func (s *finisher) writeDown(ctx context.Context, units []*unit, most time.Duration) error {
	var delivered, failed []*item
	again := false
	for _, u := range units {
		again = again || u.waits > 0
		for _, it := range u.items {
			if it.written {
				// An earlier statement has written it, and the other statement was given up.
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

// delivered deletes delivered messages, or moves them to the table of kept messages. again says that an earlier
// call may already have done so.
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
	// After a second try a smaller number proves nothing, because the first try may have been applied.
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
	// One statement does all of it, so that it needs no transaction.
	if r.db.Dialect() == sqlplane.PostgreSQL || r.keep == 0 && !failed {
		return r.removeIn(ctx, r.db.Pool(), ids, failed, held)
	}
	err = r.db.Within(ctx, store.ReadCommitted, func(ctx context.Context, tx sqlplane.Runner) (err error) {
		removed, err = r.removeIn(ctx, tx, ids, failed, held)
		return err
	})
	return removed, err
}

// removeIn is remove with one statement, or with several in the transaction tx. failed says that the messages may have failures.
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
	if r.keep > 0 {
		if _, err := tx.Exec(ctx, r.text(into+"once_outbox where "+where, args...)); err != nil {
			return 0, err
		}
	}
	deleted := r.text("delete from once_outbox where "+where, args...)
	if r.db.Dialect() == sqlplane.MySQL {
		// Row by row: a plan that reads the table would wait for rows that are not committed yet.
		deleted = r.text("delete once_outbox from "+mysqlTable(ids)+" x straight_join once_outbox on once_outbox.part = x.part and once_outbox.id = x.id where "+still, more...)
	}
	if removed, err = tx.Exec(ctx, deleted); err == nil && failed && removed > 0 {
		_, err = tx.Exec(ctx, r.removeFailures(ids, held))
	}
	return removed, err
}

// removeFailures deletes the failures of messages.
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

// mysqlTable is a table of ids.
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

// failed stores failures, with the times of the next attempts by the clock of the database.
func (r *Relay) failed(ctx context.Context, items []*item, most time.Duration) error {
	slices.SortFunc(items, func(a, b *item) int { return cmp.Or(cmp.Compare(a.part, b.part), cmp.Compare(a.id, b.id)) }) // all processes lock rows in one order
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
		if want++; it.failure != nil && r.db.Dialect() == sqlplane.MySQL { // a row that is updated counts as two
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
	case written < want && len(items) > 1: // another process has taken a part, or a person has skipped a message: find out which
		for _, it := range items {
			if err := r.failedSome(ctx, []*item{it}, most); err != nil {
				return err
			}
		}
		return nil
	case written == 0:
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

// insertFailures is the statement that stores failures. Each row is part, id, type, attempts, microseconds
// until the next attempt or -1, error. If a person has skipped a message meanwhile, the message has another
// type, and gets no failure.
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
	if r.db.Dialect() == sqlplane.PostgreSQL { // in other databases a select in an insert locks the rows it reads, or only one transaction writes
		lock = " for share of o" // wait for a Skip that has not committed
	}
	return r.text(`insert into once_outbox_failed (part, id, topic, KEY, attempts, next_at, failed_at, error)
 select o.part, o.id, o.topic, o.KEY, x.attempts, case when x.wait < 0 then null else `+next+` end, NOW, x.error from `+from.String()+`
 on o.part = x.part and o.id = x.id and o.event_type = x.type where `+still+lock+`
 UPSERT(part, id) attempts = NEW(attempts), next_at = NEW(next_at), error = NEW(error)`, append(args, more...)...)
}

// removeOrphans deletes failures whose messages are deleted.
func (r *Relay) removeOrphans(ctx context.Context, failures map[messageID]*failure, list []rangeOf) error {
	ids := slices.Collect(maps.Keys(failures))
	var held []hold.Part
	for _, of := range list {
		if !slices.Contains(held, of.queue.part) {
			held = append(held, of.queue.part)
		}
	}
	slices.SortFunc(held, func(a, b hold.Part) int { return cmp.Compare(a.Number, b.Number) })
	return r.try(ctx, func(ctx context.Context) error {
		_, err := r.db.Pool().Exec(ctx, r.removeFailures(ids, held))
		return err
	})
}

// write calls fn until fn succeeds, or until one call has taken the time most: then write returns errLocked.
// Each statement of fn must have the same effect when it runs again. After the end of Run, fn has the TTL to
// succeed.
func (r *Relay) write(ended context.Context, most time.Duration, fn func(context.Context) error) error {
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

// tellFull reports to the observer, once, that a topic has so many failing messages that no others of it are
// read.
func (r *Relay) tellFull(ctx context.Context, t *topic) {
	if r.board.newlyFull(t) {
		r.tell(ctx, Event{Type: EventStopped, Err: fmt.Errorf("topic %q has %d failing messages in one part of the outbox, so the relay reads no other messages of the topic in this part. Try: once outbox list --topic, and once outbox skip", t.name, maxFailing)})
	}
}

// told reports the outcome of a message to the observer.
func (r *Relay) told(ctx context.Context, what EventType, it *item, err error, next time.Time) {
	m := it.message
	m.Delivery = it.attempt
	r.tell(ctx, Event{Type: what, Message: m, Err: err, NextAt: next})
}

// heldBy returns the parts of items.
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

// errorText is the text of an error in a form that any database stores.
func errorText(err error) string {
	const most = 2000
	text := strings.ReplaceAll(err.Error(), "\x00", "")
	if len(text) > most {
		text = text[:most]
	}
	return strings.ToValidUTF8(text, "?")
}
