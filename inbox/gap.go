package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/base/printable"
	"github.com/oncelib/once/internal/sql/audit"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/sql/letter"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// Gap is a key whose messages wait for an earlier message, which is missing, fails, or is a dead letter.
type Gap struct {
	Source, Topic, Key string

	Seq    int64     // the number of the missing message
	Parked int64     // the number of parked messages
	Since  time.Time // when the key began to wait, by the clock of the database: when its first waiting message was parked, or when a message of the key was last applied or skipped
	Dead   bool      // true if the missing message is a dead letter: redrive (try again) or discard the dead letter, or call Skip

	Failing Failing // Failing is set if the missing message has arrived and its attempts fail: then repair the handler. Failing is zero if the message has not arrived, or if Dead is set.
}

// maxGaps limits the number of gaps in one list.
const maxGaps = 1000

// Gaps lists at most 1,000 keys that wait for a message. The first key in the list has waited longest.
func (in *Inbox[TX]) Gaps(ctx context.Context) ([]Gap, error) {
	return in.gaps(ctx, "and not exists ("+nextIsParked+" and k.next_at is null)")
}

// alarming lists the gaps that need an alarm. It omits gaps whose message is being retried, because
// EventFailed reports the failed attempts.
func (in *Inbox[TX]) alarming(ctx context.Context) ([]Gap, error) {
	return in.gaps(ctx, "and p.moved_at <= AGO(?) and not exists ("+nextIsParked+") and (p.dead or not exists (select 1"+attemptOf+" and a.at > AGO(?)))",
		in.cfg.GapAlarm.Microseconds(), in.cfg.silence().Microseconds())
}

// nextIsParked selects the parked message that is next in the key p.
const nextIsParked = "select 1 from once_inbox_parked k where k.consumer = p.consumer and k.source = p.source and k.topic = p.topic and k.KEY = p.KEY and k.seq = p.seq + 1"

// gaps lists the keys with parked messages that fulfil a condition, with the longest wait first.
func (in *Inbox[TX]) gaps(ctx context.Context, condition string, args ...any) (list []Gap, err error) {
	query := "select p.source, p.topic, p.KEY, p.seq + 1, p.parked, p.moved_at, p.dead, " + failingColumns + " from once_inbox_position p where p.consumer = ? and p.parked > 0 " + condition + " order by p.moved_at limit ?"
	args = append(append([]any{in.cfg.Consumer}, args...), maxGaps)
	err = in.db.Pool().Query(ctx, in.statement(query, args...), func(row sqlplane.Row) error {
		g, err := scanGap(row)
		list = append(list, g)
		return err
	})
	return list, err
}

// scanGap reads a gap from a row. The parameter more holds targets for further columns of the row.
func scanGap(row sqlplane.Row, more ...any) (g Gap, err error) {
	var failing scanned
	columns := append([]any{&g.Source, &g.Topic, &g.Key, &g.Seq, &g.Parked, (*dialect.Time)(&g.Since), &g.Dead}, failing.columns()...)
	// A dead letter has used up its attempts, so the attempts say nothing new.
	if err = row.Scan(append(columns, more...)...); err == nil && !g.Dead {
		g.Failing = failing.failing()
	}
	return g, err
}

// GapsUpTo returns one page of gaps (keys that wait for a missing message). GapsUpTo reads only keys of consumer
// that have parked messages (messages that wait in the database for an earlier message). The parameter most is
// the largest number of keys that GapsUpTo reads. The gap that has waited longest is the first in the list. The
// result more reports whether other gaps may exist. GapsUpTo reads a few rows for each key.
func GapsUpTo(ctx context.Context, db sqlplane.Database, consumer string, most int) (list []Gap, more bool, err error) {
	// PostgreSQL may compute an EXISTS for all parked messages at once, and then reads all of them. It computes this subquery only for the rows of the page.
	const query = `select p.source, p.topic, p.KEY, p.seq + 1, p.parked, p.moved_at, p.dead, ` + failingColumns + `, coalesce((` + nextIsParked + ` and k.next_at is null limit 1), 0)
 from (select consumer, source, topic, KEY, seq, parked, moved_at, dead from once_inbox_position where consumer = ? and parked > 0 limit ?) p`
	read := 0
	err = db.Pool().Query(ctx, store.Statement{SQL: dialect.Text(db.Dialect(), query), Args: []any{consumer, int64(most)}}, func(row sqlplane.Row) error {
		var there int64
		g, err := scanGap(row, &there)
		// If the next message is parked and due, the key does not wait for a message: Run applies it soon.
		if read++; there == 0 {
			list = append(list, g)
		}
		return err
	})
	// The query has a limit without an order, so that it never sorts more than most rows.
	slices.SortFunc(list, func(a, b Gap) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Key, b.Key))
	})
	return list, read >= most, err
}

// ErrNotNext says that Skip has changed nothing, because the key of the message does not wait for this message.
var ErrNotNext = errors.New("inbox: the message cannot be skipped, because its key does not wait for this message")

// Skip gives up the message seq, for which a key waits. Call Skip if the message seq is lost for good, or is a
// dead letter. Later messages of the key are applied when they are delivered, and parked messages are applied
// when Run looks for due messages the next time. If the skipped message is a dead letter, the dead letter
// remains. A later redrive (another try) does not apply this dead letter, because the key has already continued
// with later messages. Skip writes the operator and the reason to the audit (the table once_audit) in the same
// commit, so Skip also needs the migrations of package operate. A second Skip of the same message changes
// nothing.
//
// The error is ErrNotNext in three cases: the key waits for another message than seq; the message seq is parked
// and is being tried; or the message seq has arrived and its attempts fail. If the message seq is being tried or
// its attempts fail, wait until this message is a dead letter. Skip does not give up a message whose attempts
// fail, because a redelivery of the message would then count as a duplicate, and the message would be lost. If
// the broker has lost a message whose attempts fail, call StartAt to give the message up.
func (in *Inbox[TX]) Skip(ctx context.Context, source, topic, key string, seq int64, who, reason string) error {
	s, err := in.target(source, topic, key, seq)
	if err != nil {
		return err
	}
	if err := checkSigned(who, reason); err != nil {
		return err
	}
	return letter.Within(ctx, in.db, func(ctx context.Context, r sqlplane.Runner) error {
		positions, err := in.lock(ctx, r, []stream{s})
		if err != nil {
			return err
		}
		at := positions[s]
		switch {
		case seq <= at.seq:
			return nil // an earlier call has skipped it, or it was applied
		case seq > at.seq+1:
			return fmt.Errorf("%w: the key waits for the message with Seq %d. Try: skip that message first", ErrNotNext, at.seq+1)
		}
		if waits, err := in.isParked(ctx, r, s, seq); err != nil || waits {
			if waits {
				err = fmt.Errorf("%w: the message was received, and the inbox will try it. Try: wait until the message is applied or is a dead letter", ErrNotNext)
			}
			return err
		}
		// A failing message may be redelivered at any time, and would then count as a duplicate.
		// A message whose first handler has just failed is not seen if Skip gets the lock between the rollback of the handler and the commit of
		// the failed attempt. The message then counts as one that arrives after Skip: the operator has given it up, and a redelivery is
		// acknowledged as a duplicate. To close this gap, each failed attempt would have to be stored before its transaction is rolled back.
		if !at.dead {
			f, err := in.failingAt(ctx, r, s, seq)
			if err == nil && f.Attempts > 0 {
				err = fmt.Errorf("%w: the message %s, and a skip would lose it. Try: repair the handler, or wait until all attempts have failed: then the message is a dead letter, which you can discard", ErrNotNext, f)
			}
			if err != nil {
				return err
			}
		}
		at.seq, at.dead = seq, false
		if err := in.write(ctx, r, positions); err != nil {
			return err
		}
		return in.audit(ctx, r, "inbox skip", s, who, reason, fmt.Sprintf("seq %d", seq))
	})
}

// StartAt makes a key begin at seq: the message with this Seq becomes the next message to apply. Use StartAt for
// a consumer that is added when earlier messages no longer exist. Messages of the key with a smaller Seq than seq
// count as duplicates, and parked messages with a smaller Seq than seq are dropped. StartAt does not move a key
// back: if the key is already after seq, StartAt returns an error and changes nothing. Like Skip, StartAt writes
// the operator and the reason to the audit (the table once_audit).
func (in *Inbox[TX]) StartAt(ctx context.Context, source, topic, key string, seq int64, who, reason string) error {
	s, err := in.target(source, topic, key, seq)
	if err != nil {
		return err
	}
	if err := checkSigned(who, reason); err != nil {
		return err
	}
	return letter.Within(ctx, in.db, func(ctx context.Context, r sqlplane.Runner) error {
		positions, err := in.lock(ctx, r, []stream{s})
		if err != nil {
			return err
		}
		at := positions[s]
		if at.seq >= seq {
			return fmt.Errorf("inbox: StartAt: the inbox has already applied messages of the key up to Seq %d, so the key cannot be set back to %d: messages would be applied twice", at.seq, seq)
		}
		// The key already begins at seq, so a repeated call changes nothing.
		if at.seq == seq-1 && at.begun() {
			return nil
		}
		dropped, err := r.Exec(ctx, in.statement("delete from once_inbox_parked where consumer = ? and source = ? and topic = ? and KEY = ? and seq < ?", in.parkedArgs(s, seq)...))
		if err != nil {
			return err
		}
		detail := fmt.Sprintf("seq %d, after %d; parked messages dropped: %d", seq, at.seq, dropped)
		at.begin(seq)
		at.dead = false
		at.parked -= dropped
		if err := in.write(ctx, r, positions); err != nil {
			return err
		}
		return in.audit(ctx, r, "inbox start-at", s, who, reason, detail)
	})
}

// maxSigned limits the length of the name and of the reason of an operator, in bytes.
const maxSigned = 500

// checkSigned checks the name and the reason of an operator.
func checkSigned(who, reason string) error {
	for _, field := range [...]struct{ name, value, try string }{
		{"name (who)", who, "the name of the person or service that makes the change"}, {"reason", reason, "a reason, such as the number of a ticket"},
	} {
		if strings.TrimSpace(field.value) == "" {
			return fmt.Errorf("inbox: the field %s is empty. Try: %s", field.name, field.try)
		}
		if err := message.CheckText(field.name, field.value, maxSigned); err != nil {
			return fmt.Errorf("inbox: %w", err)
		}
	}
	return nil
}

// audit writes the change of a key by an operator to the audit.
func (in *Inbox[TX]) audit(ctx context.Context, r sqlplane.Runner, action string, s stream, who, reason, detail string) error {
	scope := printable.Cut(in.cfg.Consumer+" "+s.source+" "+s.topic, keyname.MaxScope)
	_, err := r.Exec(ctx, audit.Insert(in.db.Dialect(), audit.Entry{
		Who: who, Action: action, Scope: scope, KeyHash: once.KeyHash(s.key), Reason: reason, Detail: detail,
	}))
	return err
}

// target checks the key and the Seq that an operator has given, and returns the stream of the key.
func (in *Inbox[TX]) target(source, topic, key string, seq int64) (stream, error) {
	if in.cfg.Order != InOrder {
		return stream{}, errors.New("inbox: this inbox does not apply messages in the order of their Seq, so no key waits for a message. Try: an inbox with Config.Order InOrder")
	}
	// The ID is not used; checked requires one.
	m, err := in.cfg.checked(message.Message{ID: "-", Source: source, Topic: topic, Key: key, Seq: seq})
	switch {
	case err != nil:
		return stream{}, fmt.Errorf("inbox: %w", err)
	case key == "" || seq < 1:
		return stream{}, fmt.Errorf("inbox: the key %q is empty or the Seq %d is not positive. Try: a key and a Seq that Inbox.Gaps returns", key, seq)
	}
	return stream{m.Source, topic, key}, nil
}

// isParked reports whether the message seq of a key is parked.
func (in *Inbox[TX]) isParked(ctx context.Context, r sqlplane.Runner, s stream, seq int64) (is bool, err error) {
	err = r.Query(ctx, in.statement("select seq from once_inbox_parked where "+isParked, in.parkedArgs(s, seq)...), func(sqlplane.Row) error {
		is = true
		return nil
	})
	return is, err
}
