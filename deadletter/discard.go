package deadletter

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/oncelib/once/internal/sql/audit"
	"github.com/oncelib/once/internal/sql/letter"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// Discard gives up the dead letters that f selects, and returns the number of discarded letters. Discard erases
// the headers and payloads of the discarded letters. If the message of a letter has a Seq (a position in the
// order of its key), Discard also gives up this position, so that later messages of the key can be handled. An
// inbox continues with the next message of the key. After Discard, an outbox delivers a marker of the type
// "once.skipped", with the reason, at the position of the discarded message.
//
// It is safe to call Discard again. If a redrive tries a letter during the call of Discard, the letter is either
// applied or discarded, never both.
func (l *Letters) Discard(ctx context.Context, f Filter, who, reason string) (discarded int64, err error) {
	if err := checkSigned(who, reason); err != nil {
		return 0, err
	}
	f.State = StateDead
	where, args, err := f.where(l.db.Dialect())
	if err != nil {
		return 0, err
	}
	for more := true; more; {
		var n int
		err := letter.Within(ctx, l.db, func(ctx context.Context, r sqlplane.Runner) (err error) {
			if err := l.write(ctx, r); err != nil {
				return err
			}
			list, err := l.locked(ctx, r, where+" order by uid limit ? FOR UPDATE", append(args[:len(args):len(args)], int64(page))...)
			if n = len(list); err != nil || n == 0 {
				return err
			}
			return l.discard(ctx, r, f, list, who, reason)
		})
		if err != nil {
			return discarded, err
		}
		discarded += int64(n)
		more = n == page
	}
	return discarded, nil
}

// discard discards letters that the transaction has locked.
func (l *Letters) discard(ctx context.Context, r sqlplane.Runner, f Filter, list []letter.Letter, who, reason string) error {
	messages, err := l.outboxMessages(ctx, r, list)
	if err != nil {
		return err
	}
	marker, err := json.Marshal(map[string]string{headerSkipReason: reason})
	if err != nil {
		return fmt.Errorf("deadletter: the reason is not valid: %w", err)
	}
	for _, one := range list {
		statements := []store.Statement{l.statement(
			"update once_deadletter set redrive_at = null, resolved_at = NOW, reason = ?, headers = ?, payload = ?, state = 'discarded' where uid = ?", reason, []byte{}, []byte{}, one.UID)}
		if one.Origin == letter.OriginInbox {
			if err := l.leaveInbox(ctx, r, &one); err != nil {
				return err
			}
		} else if m, ok := messages[nameOf(&one)]; ok {
			statements = append(statements,
				l.statement("update once_outbox set event_type = ?, headers = ?, payload = ?, encrypted = ? where part = ? and id = ?", typeSkipped, marker, []byte{}, false, m.part, m.id),
				l.statement("update once_outbox_failed set next_at = NOW where part = ? and id = ?", m.part, m.id))
		}
		for _, s := range statements {
			if err := r.Append(ctx, s); err != nil {
				return err
			}
		}
	}
	detail := fmt.Sprintf("discarded %d of %s", len(list), f)
	return r.Append(ctx, audit.Insert(l.db.Dialect(), audit.Entry{Who: who, Action: "discard", Scope: scopeOf(f), Reason: reason, Detail: detail}))
}

// What package outbox writes in place of a skipped message.
const (
	typeSkipped      = "once.skipped"
	headerSkipReason = "once-skip-reason"
)

// Classes of inbox letters that have no place of their own in an order: the place belongs to another message, or is not known.
const (
	classMismatch  = "mismatch"
	classMalformed = "malformed"
	classJump      = "seq_jump"
)

// leaveInbox gives up the place of a letter, so that a redelivery of its message is a duplicate and later messages of its key continue. A
// message has one place: its ID, or its position in its key. A refused message has its ID, even if it has a Seq.
func (l *Letters) leaveInbox(ctx context.Context, r sqlplane.Runner, one *letter.Letter) error {
	n, err := r.Exec(ctx, l.statement("update once_inbox set processed_at = NOW where consumer = ? and source = ? and event_id = ? and payload_hash = ? and (envelope is null or envelope = ?) and processed_at is null",
		one.Consumer, one.Source, one.EventID, one.Hash, letter.Envelope(one.Topic, one.Key, one.Type)))
	if err != nil || n > 0 || one.Key == "" || one.Seq == 0 || one.Class == classMismatch || one.Class == classMalformed || one.Class == classJump {
		return err
	}
	return r.Append(ctx, l.statement("update once_inbox_position set seq = seq + 1, dead = ?, moved_at = NOW where consumer = ? and source = ? and topic = ? and KEY = ? and seq = ? and dead = ?",
		false, one.Consumer, one.Source, one.Topic, one.Key, one.Seq-1, true))
}
