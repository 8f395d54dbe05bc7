package letter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// keepFirst and keepLast are how many of the first and of the last attempts of a message are kept.
const (
	keepFirst = 50
	keepLast  = 50
)

func statement(d sqlplane.Dialect, query string, args ...any) store.Statement {
	return store.Statement{SQL: dialect.Text(d, query), Args: args}
}

// Record stores one more failed delivery, in a separate transaction. It returns the number of the attempt, the time of the first
// known failure, and the current time, both by the clock of the database. After a lost answer to COMMIT, the attempt may
// have been stored: if the caller calls Record again, the attempt counts twice.
func Record(ctx context.Context, db sqlplane.Database, id ID, a Attempt) (n int, first, now time.Time, err error) {
	err = Within(ctx, db, func(ctx context.Context, r sqlplane.Runner) (err error) {
		n, first, now, err = Note(ctx, r, db.Dialect(), id, a)
		return err
	})
	return n, first, now, err
}

// Note does the same as Record, in the transaction of the caller. If two calls for the same message run at the same time, one of
// them gets [sqlplane.ErrDuplicate] or [store.KindRetry].
func Note(ctx context.Context, r sqlplane.Runner, d sqlplane.Dialect, id ID, a Attempt) (n int, first, now time.Time, err error) {
	const insert = `insert into once_deadletter_attempt (origin, consumer, source, event_id, topic, KEY, seq, attempt, at, node, error, trace)
 select ?, ?, ?, ?, ?, ?, ?, coalesce(max(attempt), 0) + 1, NOW, ?, ?, ? from once_deadletter_attempt where ` + isAttempt
	args := append(id.args(), text(a.Node, 255), text(a.Error, maxError), text(a.Trace, 255))
	if _, err = r.Exec(ctx, statement(d, insert, append(args, id.args()...)...)); err != nil {
		return 0, first, now, err
	}
	err = r.Query(ctx, statement(d, "select max(attempt), min(at), NOW from once_deadletter_attempt where "+isAttempt, id.args()...), func(row sqlplane.Row) error {
		return row.Scan(&n, (*dialect.Time)(&first), (*dialect.Time)(&now))
	})
	// The attempts in the middle say the least, so they are deleted.
	if err != nil || n <= keepFirst+keepLast {
		return n, first, now, err
	}
	_, err = r.Exec(ctx, statement(d, "delete from once_deadletter_attempt where "+isAttempt+" and attempt > ? and attempt <= ?", append(id.args(), int64(keepFirst), int64(n-keepLast))...))
	return n, first, now, err
}

// Bury stores a dead letter, in the transaction of the caller. If a letter with the same ID and Hash waits for a person, it
// stays as it is. If such a letter is resolved, or waits for its redrive, it becomes dead again. Bury sets l.UID.
func Bury(ctx context.Context, r sqlplane.Runner, d sqlplane.Dialect, l *Letter) error {
	const insert = `insert into once_deadletter (uid, origin, consumer, source, event_id, topic, KEY, seq, payload_hash, event_type, headers, payload, encrypted, trace, created_at,
 class, error, cause, attempts, first_failed_at, dead_at, state, redrive, reason) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, coalesce(?, NOW), NOW, 'dead', '', '') KEEP(uid)`
	uid, class, failure, cause := cmp.Or(l.UID, keyname.New()), text(l.Class, 64), text(l.Error, maxError), causeOf(l.Error)
	headers, payload, hash := append([]byte{}, l.Headers...), append([]byte{}, l.Payload...), append([]byte{}, l.Hash...) // copies, because nil would be NULL
	attempts := int64(max(l.Attempts, 1))
	args := append([]any{uid}, l.args()...)
	args = append(args, hash, text(l.Type, 255), headers, payload, l.Encrypted, text(l.Trace, 255), dialect.StoredTime(d, l.CreatedAt),
		class, failure, cause, attempts, dialect.StoredTime(d, l.FirstFailedAt))
	switch added, err := r.Exec(ctx, statement(d, insert, args...)); {
	case err != nil:
		return err
	case added == 1 && d != sqlplane.MySQL: // MySQL may count a row that was not inserted
		l.UID = uid
		return nil
	}
	const again = `update once_deadletter set event_type = ?, headers = ?, payload = ?, encrypted = ?, class = ?, error = ?, cause = ?, attempts = ?, dead_at = NOW, redrive_at = null, resolved_at = null, reason = '', state = 'dead'
 where ` + isID + ` and payload_hash = ? and uid <> ? and (state <> 'dead' or redrive_at is not null)`
	args = append([]any{text(l.Type, 255), headers, payload, l.Encrypted, class, failure, cause, attempts}, l.args()...)
	if _, err := r.Exec(ctx, statement(d, again, append(args, hash, uid)...)); err != nil {
		return err
	}
	l.UID = ""
	err := r.Query(ctx, statement(d, "select uid from once_deadletter where "+isID+" and payload_hash = ?", append(l.args(), hash)...), func(row sqlplane.Row) error {
		return row.Scan(&l.UID)
	})
	if err == nil && l.UID == "" {
		err = fmt.Errorf("the dead letter of message %s was not written. Try: once migrate up --only deadletter, and once doctor", l.EventID)
	}
	return err
}

// DeadOf returns the UID and the class of the dead letter of a message that waits for a person or for its redrive. The UID is empty
// if there is no such letter.
func DeadOf(ctx context.Context, r sqlplane.Runner, d sqlplane.Dialect, id ID, hash []byte) (uid, class string, err error) {
	err = r.Query(ctx, statement(d, "select uid, class from once_deadletter where "+isID+" and payload_hash = ? and state = 'dead'", append(id.args(), hash)...), func(row sqlplane.Row) error {
		return row.Scan(&uid, &class)
	})
	return uid, class, err
}

// Except says which letters Due omits.
type Except struct {
	UIDs []string
	Keys []ID    // only Source, Topic and Key count
	UpTo *Letter // if set: omit this letter, and all letters that Due lists before it
}

// Due returns at most limit letters whose redrive time has come, in the order of this time.
func Due(ctx context.Context, db sqlplane.Database, origin, consumer string, limit int, except Except) (list []Letter, err error) {
	var due strings.Builder
	due.WriteString("select " + Columns + " from once_deadletter where origin = ? and consumer = ? and redrive_at <= NOW and state = 'dead'")
	args := []any{origin, consumer}
	for _, uid := range except.UIDs {
		due.WriteString(" and uid <> ?")
		args = append(args, uid)
	}
	for _, id := range except.Keys {
		due.WriteString(" and not (source = ? and topic = ? and KEY = ?)")
		args = append(args, id.Source, id.Topic, id.Key)
	}
	if to := except.UpTo; to != nil {
		due.WriteString(" and redrive_at >= ? and (redrive_at > ? or uid > ?)")
		at := dialect.StoredTime(db.Dialect(), to.RedriveAt)
		args = append(args, at, at, to.UID)
	}
	due.WriteString(" order by redrive_at, uid limit ?")
	err = db.Pool().Query(ctx, statement(db.Dialect(), due.String(), append(args, int64(limit))...), func(row sqlplane.Row) error {
		l, err := Scan(row)
		list = append(list, l)
		return err
	})
	return list, err
}

// Take locks a due letter until the transaction that applies it ends. It returns false if another process applies the letter
// now, if the letter was resolved, or if its redrive was cancelled.
func Take(ctx context.Context, r sqlplane.Runner, d sqlplane.Dialect, uid string) (ok bool, err error) {
	const isDue = "uid = ? and state = 'dead' and redrive_at <= NOW"
	if d == sqlplane.SQLite { // SQLite has no row locks; after a write, no other transaction can write
		n, err := r.Exec(ctx, statement(d, "update once_deadletter set attempts = attempts where "+isDue, uid))
		return n > 0, err
	}
	err = r.Query(ctx, statement(d, "select uid from once_deadletter where "+isDue+" FOR UPDATE SKIP LOCKED", uid), func(sqlplane.Row) error {
		ok = true
		return nil
	})
	return ok, err
}

// Resolve ends a letter that Take has locked, in the same transaction. It erases the headers and the payload.
func Resolve(ctx context.Context, r sqlplane.Runner, d sqlplane.Dialect, uid, state string) error {
	ok, err := Replace(ctx, r, d, uid, state)
	if err == nil && !ok {
		return fmt.Errorf("another process has changed the dead letter %s at the same time", uid)
	}
	return err
}

// Replace ends a letter whose message has arrived again and takes the place of the letter, in the transaction of the message. It
// returns false if the letter was resolved meanwhile. It erases the headers and the payload.
func Replace(ctx context.Context, r sqlplane.Runner, d sqlplane.Dialect, uid, state string) (ok bool, err error) {
	n, err := r.Exec(ctx, statement(d, resolve+"uid = ? and state = 'dead'", state, []byte{}, []byte{}, uid))
	return n > 0, err
}

// ResolveMessage ends all letters of a message, in the transaction that delivers the message.
func ResolveMessage(ctx context.Context, r sqlplane.Runner, d sqlplane.Dialect, id ID, state string) error {
	_, err := r.Exec(ctx, statement(d, resolve+isID+" and state = 'dead'", append([]any{state, []byte{}, []byte{}}, id.args()...)...))
	return err
}

const resolve = "update once_deadletter set redrive_at = null, resolved_at = NOW, state = ?, headers = ?, payload = ? where "

// Again records that the redrive of a letter has failed: the letter waits for a person again. If the letter was resolved, or
// its redrive was cancelled, it stays as it is.
func Again(ctx context.Context, db sqlplane.Database, uid string, a Attempt) error {
	d := db.Dialect()
	return Within(ctx, db, func(ctx context.Context, r sqlplane.Runner) error {
		const again = "update once_deadletter set attempts = attempts + 1, redrive_at = null, error = ?, cause = ?, class = case when ? = '' then class else ? end where uid = ? and state = 'dead' and redrive_at is not null"
		class := text(a.Class, 64)
		n, err := r.Exec(ctx, statement(d, again, text(a.Error, maxError), causeOf(a.Error), class, class, uid))
		if err != nil || n == 0 {
			return err
		}
		var id ID
		err = r.Query(ctx, statement(d, "select origin, consumer, source, event_id, topic, KEY, seq from once_deadletter where uid = ?", uid), func(row sqlplane.Row) error {
			return row.Scan(&id.Origin, &id.Consumer, &id.Source, &id.EventID, &id.Topic, &id.Key, &id.Seq)
		})
		if err != nil {
			return err
		}
		_, _, _, err = Note(ctx, r, d, id, a)
		return err
	})
}

// Retain is how long resolved letters, and failed deliveries of messages without a letter, are kept.
const Retain = 30 * 24 * time.Hour

// Sweep deletes letters that were resolved longer ago than keep, and attempts of this age whose messages have no letter; at most
// limit of each. It reads first, and then deletes each row separately, so that it locks no row that is in use.
func Sweep(ctx context.Context, db sqlplane.Database, keep time.Duration, limit int) error {
	d, r := db.Dialect(), db.Pool()
	var deletes []store.Statement
	old := statement(d, "select uid from once_deadletter where state <> 'dead' and resolved_at < AGO(?) order by uid limit ?", keep.Microseconds(), int64(limit))
	err := r.Query(ctx, old, func(row sqlplane.Row) error {
		var uid string
		err := row.Scan(&uid)
		deletes = append(deletes, statement(d, "delete from once_deadletter where uid = ? and state <> 'dead'", uid))
		return err
	})
	if err != nil {
		return err
	}
	old = statement(d, `select origin, consumer, source, event_id, topic, KEY, seq, attempt from once_deadletter_attempt a where at < AGO(?) and not exists (
 select 1 from once_deadletter l where l.origin = a.origin and l.consumer = a.consumer and l.source = a.source and l.event_id = a.event_id
 and (a.seq = -1 or l.topic = a.topic and l.KEY = a.KEY and l.seq = a.seq)) order by at limit ?`, keep.Microseconds(), int64(limit))
	err = r.Query(ctx, old, func(row sqlplane.Row) error {
		var id ID
		var n int64
		err := row.Scan(&id.Origin, &id.Consumer, &id.Source, &id.EventID, &id.Topic, &id.Key, &id.Seq, &n)
		deletes = append(deletes, statement(d, "delete from once_deadletter_attempt where "+isID+" and attempt = ?", append(id.args(), n)...))
		return err
	})
	for _, s := range deletes {
		if err == nil {
			_, err = r.Exec(ctx, s)
		}
	}
	return err
}

// tries is how often a transaction runs if it conflicts with other transactions.
const tries = 20

// Within runs fn in a transaction, and runs it again after a conflict with another transaction.
func Within(ctx context.Context, db sqlplane.Database, fn func(ctx context.Context, r sqlplane.Runner) error) error {
	for try := 1; ; try++ {
		err := db.Within(ctx, store.ReadCommitted, fn)
		if err == nil || try == tries || (store.KindOf(err) != store.KindRetry && !errors.Is(err, sqlplane.ErrDuplicate)) {
			return err
		}
		wait := time.NewTimer(rand.N(time.Duration(try) * 5 * time.Millisecond))
		select {
		case <-ctx.Done():
			wait.Stop()
			return err
		case <-wait.C:
		}
	}
}
