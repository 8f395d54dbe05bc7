package inbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/oncelib/once/internal/base/sleep"
	"github.com/oncelib/once/internal/sql/letter"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

const (
	idle       = 500 * time.Millisecond // the pause after a look that finds no work
	sweepEvery = time.Minute
	minIdle    = 25 * time.Millisecond // the pause after the first failure of the database
	maxIdle    = 25 * time.Second      // the longest pause after many failures
	dueLetters = 20                    // the letters in one read; few, because each may have a payload
	dueStreams = 100
	maxTaken   = 100 // the number of keys that one look can leave out

	sweepRows = 1000
)

// Run works in the background until ctx ends. Run applies dead letters that an operator has redriven (made due
// for another try). Run applies parked messages whose earlier messages are applied, and parked messages that are
// due again after a failure. Run reports gaps, and deletes the IDs of messages after their retention. Any number
// of processes can call Run at the same time. When ctx has ended, Run waits until the handlers that it has called
// have returned or have used up their time limit, and then returns nil. While the database fails, Run reports the
// errors to the observer and waits. If the tables do not exist when Run begins, Run returns an error at once.
func (in *Inbox[TX]) Run(ctx context.Context, fn Handler[TX]) error {
	// Without the tables no retry would help, so the service learns of it at once.
	if err := in.checkTables(ctx); err != nil {
		return err
	}
	errands := newErrands()
	defer errands.working.Wait()
	// The sweep has a goroutine of its own: a sweep that waits for a locked row, or that deletes many rows, delays no message.
	errands.working.Go(func() { in.sweepAgain(ctx) })
	told := map[Gap]bool{}
	for failures := 0; ; {
		more, err := in.look(ctx, errands, fn)
		var e error
		told, e = in.tellGaps(ctx, told) // also if look fails
		err = errors.Join(err, e)
		// The random part spreads the looks of many processes.
		wait, early := idle/2+rand.N(idle), errands.more
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			failures++
			in.tell(ctx, Event{Type: EventDatabase, Err: err})
			wait, early = pause(failures), nil // no early look while the database fails
		case more:
			failures = 0
			continue
		default:
			failures = 0
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-early:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// checkTables waits until the database can be reached, and returns an error if the tables are missing.
func (in *Inbox[TX]) checkTables(ctx context.Context) error {
	tables := "select 1 from once_inbox, once_inbox_position, once_inbox_parked, once_deadletter, once_deadletter_attempt where 1 = 0"
	for failures := 1; ; failures++ {
		err := in.db.Pool().Query(ctx, in.statement(tables), func(sqlplane.Row) error { return nil })
		switch {
		case err == nil || ctx.Err() != nil:
			return nil //nolint:nilerr // Run was ended
		case errors.Is(err, store.ErrNotMigrated):
			return fmt.Errorf("inbox: Run cannot work: %w", err)
		}
		in.tell(ctx, Event{Type: EventDatabase, Err: err})
		sleep.For(ctx, pause(failures))
	}
}

// sweepAgain sweeps once a minute until ctx ends, and earlier again after a failure.
func (in *Inbox[TX]) sweepAgain(ctx context.Context) {
	for failures := 0; ; {
		wait := sweepEvery
		if err := in.Sweep(ctx); err == nil {
			failures = 0
		} else if ctx.Err() == nil {
			failures++
			in.tell(ctx, Event{Type: EventDatabase, Err: err})
			wait = pause(failures)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// pause returns the pause after a number of failures in a row. The pause doubles with each failure.
func pause(failures int) time.Duration { return min(minIdle<<min(failures, 10), maxIdle) }

// look starts the due work that comes after the last find of earlier looks. At the end of the list, the next
// look begins at the first key again. look does not wait for handlers. The result more reports whether more work may be
// due now.
func (in *Inbox[TX]) look(ctx context.Context, e *errands, fn Handler[TX]) (more bool, err error) {
	taken := e.taken()
	// The query also returns keys that are taken, so it must return some more.
	limit := dueStreams + min(len(taken), maxTaken)
	left := except(taken)
	left.UpTo = e.lastLetter
	letters, err := letter.Due(ctx, in.db, letter.OriginInbox, in.cfg.Consumer, dueLetters, left)
	if err != nil {
		return false, err
	}
	started, full := 0, false
	start := func(s stream, work func() (bool, error)) {
		// Only one goroutine works on a key, so that its messages stay in order.
		if full || taken[s] {
			return
		}
		taken[s] = true
		if full = !e.start(ctx, s, func() (bool, error) { return in.work(ctx, work) }); !full {
			started++
		}
	}
	for s, list := range byKey(letters) {
		start(s, func() (bool, error) { return len(letters) == dueLetters, in.redriveAll(ctx, list, fn) })
	}
	more = len(letters) == dueLetters
	switch {
	case !more:
		e.lastLetter = nil
	case started == 0 && !full: // every letter belongs to a taken key, so the next look must begin after them; otherwise the letters of a key stay in order
		last := &letters[len(letters)-1]
		e.lastLetter = &letter.Letter{UID: last.UID, RedriveAt: last.RedriveAt}
	}
	if in.cfg.Order == InOrder && !full {
		var streams []stream
		streams, err = in.dueStreams(ctx, e.lastKey, limit)
		more = more || len(streams) == limit
		for _, s := range streams {
			if start(s, func() (bool, error) { return in.drain(ctx, s, fn) }); !full {
				e.lastKey = s
			}
		}
		if err == nil && !full && len(streams) < limit {
			e.lastKey = stream{}
		}
	}
	return full || more && started > 0, err
}

// work does the work of a key, and reports an error of the work to the observer.
func (in *Inbox[TX]) work(ctx context.Context, work func() (bool, error)) (more bool, err error) {
	more, err = work()
	if err != nil && ctx.Err() == nil {
		in.tell(ctx, Event{Type: EventDatabase, Err: err})
	}
	return more, err
}

// byKey groups letters by their keys. A letter without a key is the only letter of its group: see alone.
func byKey(letters []letter.Letter) map[stream][]*letter.Letter {
	keys := map[stream][]*letter.Letter{}
	for i := range letters {
		l := &letters[i]
		s := alone(l.UID)
		if l.Key != "" {
			s = stream{l.Source, l.Topic, l.Key}
		}
		keys[s] = append(keys[s], l)
	}
	return keys
}

// alone returns a unique stream for a letter without a key.
func alone(uid string) stream { return stream{key: uid} }

// except returns the condition that excludes the letters of taken keys. Further keys than maxTaken are not
// excluded, so that the statement stays short.
func except(taken map[stream]bool) (x letter.Except) {
	n := 0
	for s := range taken {
		switch n++; {
		case n > maxTaken:
			return x
		case s == alone(s.key):
			x.UIDs = append(x.UIDs, s.key)
		default:
			x.Keys = append(x.Keys, letter.ID{Source: s.source, Topic: s.topic, Key: s.key})
		}
	}
	return x
}

// redriveAll applies the letters of a key in sequence. A letter that cannot be applied does not block the next
// letter.
func (in *Inbox[TX]) redriveAll(ctx context.Context, letters []*letter.Letter, fn Handler[TX]) (err error) {
	for _, l := range letters {
		if ctx.Err() == nil {
			err = errors.Join(err, in.redrive(ctx, l, fn))
		}
	}
	return err
}

// dueStreams lists the keys that sort after the key after, and whose next message is parked and due.
func (in *Inbox[TX]) dueStreams(ctx context.Context, after stream, limit int) (list []stream, err error) {
	// p.parked > 0 is always true. It comes first in the order, because otherwise PostgreSQL would walk the primary
	// key, which contains all keys.
	query := "select p.source, p.topic, p.KEY from once_inbox_position p" + indexParked[in.db.Dialect()] + `
 join once_inbox_parked k on k.consumer = p.consumer and k.source = p.source and k.topic = p.topic and k.KEY = p.KEY and k.seq = p.seq + 1
 where p.consumer = ? and p.parked > 0 and not p.dead and (k.next_at is null or k.next_at <= NOW)
 and (p.parked > 0, p.source, p.topic, p.KEY) > (true, ?, ?, ?) order by p.parked > 0, p.source, p.topic, p.KEY limit ?`
	err = in.db.Pool().Query(ctx, in.statement(query, in.cfg.Consumer, after.source, after.topic, after.key, int64(limit)), func(row sqlplane.Row) error {
		var s stream
		err := row.Scan(&s.source, &s.topic, &s.key)
		list = append(list, s)
		return err
	})
	return list, err
}

// indexParked makes the database use the index that contains only keys with parked messages.
var indexParked = map[sqlplane.Dialect]string{
	sqlplane.SQLite: " indexed by once_inbox_position_parked",
	sqlplane.MySQL:  " force index (once_inbox_position_parked)",
}

// tellGaps reports the gaps that are not in told to the observer. It returns all gaps that exist now.
func (in *Inbox[TX]) tellGaps(ctx context.Context, told map[Gap]bool) (map[Gap]bool, error) {
	if in.cfg.Order != InOrder {
		return told, nil
	}
	gaps, err := in.alarming(ctx)
	if err != nil {
		return told, err
	}
	now := make(map[Gap]bool, len(gaps))
	for _, g := range gaps {
		// The other fields change while the gap stays the same, so they are not compared.
		same := Gap{Source: g.Source, Topic: g.Topic, Key: g.Key, Seq: g.Seq, Dead: g.Dead}
		now[same] = true
		if !told[same] {
			e := Event{Type: EventGap, Gap: g}
			if f := g.Failing; f.Attempts > 0 {
				e.Attempt, e.Err = int(f.Attempts), fmt.Errorf("message %d %s; the broker has not delivered the message again since then. Try: have the sender send the message again", g.Seq, f)
			}
			in.tell(ctx, e)
		}
	}
	return now, nil
}

// Sweep deletes the IDs of applied messages after their retention, by the clock of the database. [Inbox.Run]
// calls Sweep. Sweep does not delete the ID of a message whose dead letter still waits for the decision of a
// person. Sweep also deletes attempts and resolved (applied or discarded) dead letters that are older than 30
// days and also older than Config.Retain, at most 1,000 attempts and 1,000 dead letters in each call.
func (in *Inbox[TX]) Sweep(ctx context.Context) error {
	if err := in.sweepSources(ctx, "once_inbox", sweep[in.db.Dialect()]); err != nil {
		return err
	}
	if in.cfg.ReportSameBody {
		if err := in.sweepBodies(ctx); err != nil {
			return err
		}
	}
	return letter.Sweep(ctx, in.db, max(letter.Retain, in.cfg.Retain), sweepRows)
}

// sweepSources runs a statement that deletes old rows of a table. It repeats the statement for each source until
// no old rows are left.
func (in *Inbox[TX]) sweepSources(ctx context.Context, table, query string) error {
	for source := ""; ; {
		next, found, err := in.nextSource(ctx, table, source)
		if err != nil || !found {
			return err
		}
		source = next
		for {
			n, err := in.db.Pool().Exec(ctx, in.statement(query, in.cfg.Consumer, source, in.cfg.retain(source).Microseconds(), sweepRows))
			if err != nil {
				return err
			}
			if n < sweepRows {
				break
			}
		}
	}
}

// nextSource returns the first source of a table that sorts after the source after. Each call is one look-up in
// the primary key, because there are few sources.
func (in *Inbox[TX]) nextSource(ctx context.Context, table, after string) (source string, found bool, err error) {
	err = in.db.Pool().Query(ctx, in.statement("select source from "+table+" where consumer = ? and source > ? order by source limit 1", in.cfg.Consumer, after), func(row sqlplane.Row) error {
		found = true
		return row.Scan(&source)
	})
	return source, found, err
}

// sweep holds the statements that delete IDs of a consumer and source. The last two arguments are the age in
// microseconds and the largest number of rows. On PostgreSQL, processes that sweep at the same time do not wait for each
// other.
var sweep = map[sqlplane.Dialect]string{
	sqlplane.PostgreSQL: `with old as (
  select consumer, source, event_id from once_inbox where consumer = ? and source = ? and processed_at <= AGO(?) order by processed_at limit ? FOR UPDATE SKIP LOCKED)
 delete from once_inbox i using old where i.consumer = old.consumer and i.source = old.source and i.event_id = old.event_id`,
	sqlplane.SQLite: `delete from once_inbox where (consumer, source, event_id) in (
 select consumer, source, event_id from once_inbox where consumer = ? and source = ? and processed_at <= AGO(?) order by processed_at limit ?)`,
	sqlplane.MySQL: "delete from once_inbox where consumer = ? and source = ? and processed_at <= AGO(?) order by processed_at limit ?",
}
