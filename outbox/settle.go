package outbox

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oncelib/once/internal/hold"
	"github.com/oncelib/once/store"
)

// settle writes down what has become of items. Each statement checks that the parts are still
// held. After an error it is not known what was written: what was delivered may be delivered again.
func (l *lane) settle(ctx context.Context, items []*item) error {
	var delivered, failed []*item
	for _, it := range items {
		switch it.outcome {
		case outcomeDelivered:
			delivered = append(delivered, it)
		case outcomeFailed:
			failed = append(failed, it)
		}
	}
	if len(delivered) > 0 {
		if err := l.remove(ctx, delivered); err != nil {
			return err
		}
	}
	for _, it := range failed {
		if err := l.fail(ctx, it); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes messages that were delivered, or moves them to those that are kept.
func (l *lane) remove(ctx context.Context, items []*item) error {
	held := heldBy(items)
	var removed int64
	tries := 0
	err := l.write(ctx, func(ctx context.Context) (err error) {
		tries++
		removed, err = l.relay.removeWithLetters(ctx, items, held)
		return err
	})
	if err != nil {
		return err
	}
	for _, it := range items {
		l.relay.cfg.Policy.Budget.Succeed()
		it.part.delivered(&it.message)
		l.told(ctx, EventDelivered, it, nil, time.Time{})
		if f := it.part.failure(it.id); f != nil {
			if err := l.removeFailure(ctx, it.part, f); err != nil {
				return err
			}
		}
	}
	if tries == 1 && removed != int64(len(items)) { // another process has taken a part, for example
		l.forgetParts(held)
	}
	return nil
}

func (r *Relay) remove(ctx context.Context, ids []messageID, held []hold.Part) (removed int64, err error) {
	if r.keep == 0 || r.db.Dialect() == store.PostgreSQL {
		return r.removeIn(ctx, r.db.Pool(), ids, held)
	}
	err = r.db.Within(ctx, store.ReadCommitted, func(ctx context.Context, tx store.Runner) (err error) {
		removed, err = r.removeIn(ctx, tx, ids, held)
		return err
	})
	return removed, err
}

// removeIn is remove with one statement, or with two of the transaction tx.
func (r *Relay) removeIn(ctx context.Context, tx store.Runner, ids []messageID, held []hold.Part) (int64, error) {
	listed, args := r.listed(ids)
	still, more := hold.StillHeld(work, "once_outbox.part", held)
	where, args := listed+" and "+still, append(args, more...)
	deleted := r.text("delete from once_outbox where "+where, args...)
	if r.db.Dialect() == store.MySQL {
		// Row by row: a plan that reads the table would wait for rows that are not committed yet.
		deleted = r.text("delete once_outbox from "+mysqlTable(ids)+" x straight_join once_outbox on once_outbox.part = x.part and once_outbox.id = x.id where "+still, more...)
	}
	const into = "insert into once_outbox_sent (" + storedColumns + ", sent_at) select " + storedColumns + ", NOW from "
	switch {
	case r.keep == 0:
		return tx.Exec(ctx, deleted)
	case r.db.Dialect() == store.PostgreSQL:
		return tx.Exec(ctx, r.text("with gone as (delete from once_outbox where "+where+" returning *) "+into+"gone", args...))
	}
	if _, err := tx.Exec(ctx, r.text(into+"once_outbox where "+where, args...)); err != nil {
		return 0, err
	}
	return tx.Exec(ctx, deleted)
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

// fail writes a failure down, with the time of the next attempt by the clock of the database.
func (l *lane) fail(ctx context.Context, it *item) error {
	p := it.part
	f := &failure{id: it.id, stream: streamOf(&it.message), since: time.Now()}
	if before := p.failure(it.id); before != nil {
		*f = *before
	}
	f.attempts++
	wait, stopped := l.relay.next(f, it.err)
	// What a person has skipped meanwhile has another type, and has not failed.
	still, held := hold.StillHeld(work, "part", []hold.Part{p.Part})
	next, args := "AGO(?)", []any{f.attempts, -wait.Microseconds()}
	if f.due = time.Now().Add(wait); stopped {
		next, args, f.due = "null", args[:1], time.Time{}
	}
	lock := ""
	if l.relay.db.Dialect() == store.PostgreSQL { // elsewhere a select in an insert locks what it reads, or writers are alone
		lock = " FOR SHARE" // a Skip that has not committed is waited for
	}
	args = append(args, errorText(it.err), it.stored.part, it.id, it.message.Type)
	s := l.relay.text(`insert into once_outbox_failed (part, id, topic, KEY, attempts, next_at, failed_at, error)
 select part, id, topic, KEY, ?, `+next+`, NOW, ? from once_outbox where part = ? and id = ? and event_type = ? and `+still+lock+`
 UPSERT(part, id) attempts = NEW(attempts), next_at = NEW(next_at), error = NEW(error)`, append(args, held...)...)
	var written int64
	err := l.write(ctx, func(ctx context.Context) (err error) {
		written, err = l.relay.writeFailure(ctx, s, it, stopped)
		return err
	})
	switch {
	case err != nil:
		return err
	case written == 0:
		l.forgetParts([]hold.Part{p.Part})
		return nil
	}
	p.fail(f)
	event := EventFailed
	if stopped {
		event = EventStopped
	}
	l.told(ctx, event, it, it.err, f.due)
	return nil
}

// removeOrphans forgets failures of messages that are not there any more.
func (l *lane) removeOrphans(ctx context.Context, due []*failure, ids []messageID, found []*item) error {
	for i, f := range due {
		if slices.ContainsFunc(found, func(it *item) bool { return it.id == f.id }) {
			continue
		}
		if err := l.removeFailure(ctx, l.parts[ids[i].part], f); err != nil {
			return err
		}
	}
	return nil
}

// removeFailure deletes the failure of a message that is not there any more.
func (l *lane) removeFailure(ctx context.Context, p *part, f *failure) error {
	still, held := hold.StillHeld(work, "part", []hold.Part{p.Part})
	s := l.relay.text("delete from once_outbox_failed where part = ? and id = ? and "+still, append([]any{p.Number, f.id}, held...)...)
	err := l.write(ctx, func(ctx context.Context) error {
		_, err := l.relay.db.Pool().Exec(ctx, s)
		return err
	})
	if err == nil {
		p.free(f)
	}
	return err
}

// write calls fn until it succeeds: each of its statements has the same effect when it is run again. When Run
// ends, it is given the TTL to succeed.
func (l *lane) write(ended context.Context, fn func(context.Context) error) error {
	ctx := context.WithoutCancel(ended)
	var until time.Time
	for failures := 1; ; failures++ {
		err := l.relay.try(ctx, fn)
		if err == nil {
			return nil
		}
		if ended.Err() != nil {
			if until.IsZero() {
				until = time.Now().Add(l.relay.cfg.TTL)
			}
			if time.Now().After(until) {
				return err
			}
		}
		l.relay.databaseFailed(ctx, err, failures)
	}
}

// forgetParts has parts read from their beginning, when the holder has had time to see who holds them.
func (l *lane) forgetParts(list []hold.Part) {
	for _, h := range list {
		delete(l.parts, h.Number)
		l.doubted[h] = time.Now().Add(reloads)
	}
}

// told tells the observer what has become of a message.
func (l *lane) told(ctx context.Context, what EventType, it *item, err error, next time.Time) {
	m := it.message
	m.Attempt = it.attempt
	l.relay.tell(ctx, Event{Type: what, Message: m, Err: err, NextAt: next})
}

// heldBy returns the parts of items.
func heldBy(items []*item) []hold.Part {
	var held []hold.Part
	seen := map[*part]bool{}
	for _, it := range items {
		if !seen[it.part] {
			seen[it.part] = true
			held = append(held, it.part.Part)
		}
	}
	slices.SortFunc(held, func(a, b hold.Part) int { return cmp.Compare(a.Number, b.Number) })
	return held
}

// errorText is an error as any database stores it.
func errorText(err error) string {
	const most = 2000
	text := strings.ReplaceAll(err.Error(), "\x00", "")
	if len(text) > most {
		text = text[:most]
	}
	return strings.ToValidUTF8(text, "?")
}
