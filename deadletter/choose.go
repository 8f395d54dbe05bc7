package deadletter

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/oncelib/once/internal/sql/audit"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/sql/letter"
	"github.com/oncelib/once/store/sqlplane"
)

// page is how many letters one transaction changes at most.
const page = 1000

// firstCanary is the value of the column canary until a canary is chosen.
const firstCanary = "first"

// step is the result of one transaction of a redrive.
type step uint8

const (
	stepPage   step = iota // letters were chosen, and more may follow
	stepCanary             // the canary was not tried yet
	stepEnd                // no work is left
)

// run is a row of once_deadletter_redrive.
type run struct {
	plan      plan
	rate      float64
	canary    string
	state     RedriveState
	who       string
	reason    string
	last      string    // the letter that was chosen last
	next, now time.Time // when the next letter is due, and the time of the database
}

// choose chooses the next letters of a redrive, in the transaction r. It locks the redrive, so that concurrent callers wait.
func (l *Letters) choose(ctx context.Context, r sqlplane.Runner, uid string) (step, error) {
	if _, err := r.Exec(ctx, l.statement("update once_deadletter_redrive set total = total where uid = ?", uid)); err != nil { // it changes nothing, and locks the row on every database
		return stepEnd, err
	}
	runs, err := collect(ctx, r, l.statement("select filter, rate, canary, state, who, reason, last_uid, last_at, NOW from once_deadletter_redrive where uid = ?", uid), scanRun)
	switch {
	case err != nil:
		return stepEnd, err
	case len(runs) == 0:
		return stepEnd, ErrNoRun
	case runs[0].state != RedriveRunning:
		return stepEnd, nil
	}
	is := &runs[0]
	if is.canary != "" && is.canary != firstCanary {
		if done, err := l.judge(ctx, r, uid, is); !done || err != nil {
			return stepCanary, err
		}
	}
	if is.state != RedriveRunning {
		return stepEnd, nil
	}
	where, args, err := is.plan.where(l.db.Dialect())
	if err != nil {
		return stepEnd, err
	}
	most := page
	if is.canary == firstCanary {
		most = 1
	}
	list, err := l.locked(ctx, r, where+" and uid > ? order by uid limit ? FOR UPDATE", append(args, is.last, int64(most))...)
	if err != nil {
		return stepEnd, err
	}
	if len(list) == 0 {
		_, err := r.Exec(ctx, l.statement("update once_deadletter_redrive set state = 'done', canary = '' where uid = ?", uid))
		return stepEnd, err
	}
	return stepPage, l.schedule(ctx, r, uid, is, list)
}

func scanRun(row sqlplane.Row) (r run, err error) {
	var filter []byte
	if err := row.Scan(&filter, &r.rate, &r.canary, &r.state, &r.who, &r.reason, &r.last, (*dialect.Time)(&r.next), (*dialect.Time)(&r.now)); err != nil {
		return r, err
	}
	return r, json.Unmarshal(filter, &r.plan)
}

// judge looks at the canary. done is true if the other letters may follow, or if the redrive is stopped.
func (l *Letters) judge(ctx context.Context, r sqlplane.Runner, uid string, is *run) (done bool, err error) {
	list, err := l.locked(ctx, r, "uid = ?", is.canary)
	if err != nil {
		return false, err
	}
	applied := len(list) == 0 // without a letter: the canary was applied, and its row was swept
	for _, c := range list {
		switch {
		case c.State == letter.StateApplied || c.State == letter.StateStale:
			applied = true
		// The canary waits for its attempt.
		case c.State == letter.StateDead && c.Redrive == uid && !c.RedriveAt.IsZero():
			return false, nil
		}
	}
	if applied {
		is.canary = ""
		return true, nil
	}
	is.state = RedriveStopped
	if _, err := r.Exec(ctx, l.statement("update once_deadletter_redrive set state = 'stopped' where uid = ?", uid)); err != nil {
		return false, err
	}
	_, err = r.Exec(ctx, audit.Insert(l.db.Dialect(), audit.Entry{
		Who: is.who, Action: "redrive", Scope: scopeOf(is.plan.Filter), Reason: is.reason, Detail: fmt.Sprintf("redrive %s is stopped, because its first letter (the canary), %s, was not applied", uid, is.canary),
	}))
	return true, err
}

// schedule sets when each letter of list is due.
func (l *Letters) schedule(ctx context.Context, r sqlplane.Runner, uid string, is *run, list []letter.Letter) error {
	messages, err := l.outboxMessages(ctx, r, list)
	if err != nil {
		return err
	}
	gone, err := l.gone(ctx, r, list, messages)
	if err != nil {
		return err
	}
	due := is.next
	if due.Before(is.now) { // a redrive that was resumed late does not catch up at once
		due = is.now
	}
	var interval time.Duration
	if is.rate > 0 {
		interval = time.Duration(float64(time.Second) / is.rate)
	}
	last, canary := list[len(list)-1].UID, is.canary
	for _, one := range list {
		if gone[one.UID] {
			if err := l.resolveGone(ctx, r, uid, one.UID); err != nil {
				return err
			}
			continue
		}
		if canary == firstCanary {
			canary = one.UID
		}
		at := dialect.StoredTime(l.db.Dialect(), due) // not NOW plus an offset, because NOW changes while the page is written
		if err := r.Append(ctx, l.statement("update once_deadletter set redrive = ?, redrive_at = ? where uid = ?", uid, at, one.UID)); err != nil {
			return err
		}
		if m, ok := messages[nameOf(&one)]; ok && one.Origin == letter.OriginOutbox {
			if err := r.Append(ctx, l.statement("update once_outbox_failed set next_at = ? where part = ? and id = ?", at, m.part, m.id)); err != nil {
				return err
			}
		}
		due = due.Add(interval)
	}
	const update = "update once_deadletter_redrive set canary = ?, last_uid = ?, last_at = ?, total = total + ? where uid = ?"
	return r.Append(ctx, l.statement(update, canary, last, dialect.StoredTime(l.db.Dialect(), due), int64(len(list)), uid))
}

// outboxMessage names a message in the tables of the outbox.
type outboxMessage struct{ part, id int64 }

// messageName identifies a message of an outbox. The ID alone does not, because the sender chooses it.
type messageName struct {
	id, topic, key string
	seq            int64
}

func nameOf(one *letter.Letter) messageName {
	return messageName{one.EventID, one.Topic, one.Key, one.Seq}
}

const nameColumns = "o.event_id, o.topic, o.KEY, coalesce(o.seq, 0)"

func (n *messageName) dest() []any { return []any{&n.id, &n.topic, &n.key, &n.seq} }

// outboxMessages finds the messages of letters of an outbox, by their IDs.
func (l *Letters) outboxMessages(ctx context.Context, r sqlplane.Runner, list []letter.Letter) (map[messageName]outboxMessage, error) {
	var ids []any
	for _, one := range list {
		if one.Origin == letter.OriginOutbox {
			ids = append(ids, one.EventID)
		}
	}
	found := map[messageName]outboxMessage{}
	if len(ids) == 0 {
		return found, nil
	}
	query := "select " + nameColumns + ", f.part, f.id from once_outbox_failed f join once_outbox o on o.part = f.part and o.id = f.id where o.event_id in (?" + strings.Repeat(", ?", len(ids)-1) + ")"
	err := r.Query(ctx, l.statement(query, ids...), func(row sqlplane.Row) error {
		var name messageName
		var m outboxMessage
		err := row.Scan(append(name.dest(), &m.part, &m.id)...)
		found[name] = m
		return err
	})
	return found, err
}

// gone returns the letters of an outbox whose messages no longer exist, because a relay without dead letters has delivered them. Without this,
// the letters would wait for ever.
func (l *Letters) gone(ctx context.Context, r sqlplane.Runner, list []letter.Letter, failed map[messageName]outboxMessage) (map[string]bool, error) {
	var ids []any
	gone, uids := map[string]bool{}, map[messageName]string{}
	for _, one := range list {
		if _, ok := failed[nameOf(&one)]; !ok && one.Origin == letter.OriginOutbox {
			ids = append(ids, one.EventID)
			gone[one.UID], uids[nameOf(&one)] = true, one.UID
		}
	}
	if len(ids) == 0 {
		return gone, nil
	}
	query := "select " + nameColumns + " from once_outbox o where o.event_id in (?" + strings.Repeat(", ?", len(ids)-1) + ")" // the message waits as a marker, and has not failed
	err := r.Query(ctx, l.statement(query, ids...), func(row sqlplane.Row) error {
		var name messageName
		err := row.Scan(name.dest()...)
		delete(gone, uids[name])
		return err
	})
	return gone, err
}

// resolveGone resolves a letter whose message was delivered already.
func (l *Letters) resolveGone(ctx context.Context, r sqlplane.Runner, redrive, uid string) error {
	if err := r.Append(ctx, l.statement("update once_deadletter set redrive = ? where uid = ?", redrive, uid)); err != nil {
		return err
	}
	return letter.Resolve(ctx, r, l.db.Dialect(), uid, letter.StateStale)
}
