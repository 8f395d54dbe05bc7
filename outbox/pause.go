package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// MaxReason is the maximum length, in bytes, of the reason that is passed to Pause, Skip, Resend or Forget.
const MaxReason = 512

// Pause is a topic, or a key of a topic, whose delivery a person has paused.
type Pause struct {
	Topic    string
	Key      string // "" means the whole topic
	Reason   string
	PausedAt time.Time
}

// Pause stops the delivery of the messages of a topic and key, or of the whole topic if key is "". New messages
// of a paused topic or key can still be added to the outbox. Relays notice the pause within two seconds, and
// finish the deliveries that are already in flight.
func (b *Box[TX]) Pause(ctx context.Context, topic, key, reason string) error {
	if err := errors.Join(checkTarget(topic, key), checkReason(reason)); err != nil {
		return err
	}
	const pause = "insert into once_outbox_paused (topic, KEY, reason, paused_at) values (?, ?, ?, NOW) UPSERT(topic, KEY) reason = NEW(reason)"
	return b.db.Within(ctx, store.ReadCommitted, func(ctx context.Context, r sqlplane.Runner) error {
		// The upsert keeps paused_at of an earlier pause, and replaces its reason.
		if _, err := r.Exec(ctx, b.statement(pause, topic, key, reason)); err != nil {
			return err
		}
		return b.audit(ctx, r, "outbox pause", topic, key, reason, target(key))
	})
}

// Known reports whether the outbox has, or ever had, a message with the given topic and key. If key is "",
// messages with any key count. For a topic whose messages have no key, Known returns true only while a
// message of the topic waits.
func (b *Box[TX]) Known(ctx context.Context, topic, key string) (known bool, err error) {
	args := []any{topic, topic}
	ofKey := ""
	if key != "" {
		args, ofKey = []any{topic, key, topic, key}, " and KEY = ?"
	}
	query := "select 1 from once_stream where topic = ?" + ofKey + " union all select 1 from once_outbox where topic = ?" + ofKey + " limit 1"
	err = b.db.Pool().Query(ctx, b.statement(query, args...), func(sqlplane.Row) error {
		known = true
		return nil
	})
	return known, err
}

// Paused returns the paused topics and keys.
func (b *Box[TX]) Paused(ctx context.Context) (list []Pause, err error) {
	err = b.db.Pool().Query(ctx, b.statement("select topic, KEY, reason, paused_at from once_outbox_paused order by topic, KEY"), func(row sqlplane.Row) error {
		var p Pause
		err := row.Scan(&p.Topic, &p.Key, &p.Reason, (*dialect.Time)(&p.PausedAt))
		list = append(list, p)
		return err
	})
	return list, err
}

// Resumed is the result of Box.Resume.
type Resumed struct {
	Paused   bool  // the topic or key was paused before the call
	Messages int64 // how many failing and stopped messages will be tried again
}

// Resume ends a [Box.Pause] of the same topic and key. After Resume, relays immediately try to deliver the
// failing and stopped messages of the topic and key, or of the whole topic if key is "", as if these messages
// had not failed before. If a whole topic is resumed, a key of the topic that was paused separately stays
// paused.
func (b *Box[TX]) Resume(ctx context.Context, topic, key string) (Resumed, error) {
	if err := checkTarget(topic, key); err != nil {
		return Resumed{}, err
	}
	where, args := "topic = ?", []any{topic}
	if key != "" {
		where, args = "topic = ? and KEY = ?", []any{topic, key}
	}
	var paused, messages int64
	err := b.db.Within(ctx, store.ReadCommitted, func(ctx context.Context, r sqlplane.Runner) (err error) {
		if paused, err = r.Exec(ctx, b.statement("delete from once_outbox_paused where topic = ? and KEY = ?", topic, key)); err != nil {
			return err
		}
		messages, err = r.Exec(ctx, b.statement("update once_outbox_failed set attempts = 0, next_at = NOW, failed_at = NOW where "+where, args...))
		// If nothing has changed, the audit gets no entry.
		if err != nil || paused+messages == 0 {
			return err
		}
		return b.audit(ctx, r, "outbox resume", topic, key, "", fmt.Sprintf("%s, %d failed messages tried again", target(key), messages))
	})
	return Resumed{paused > 0, messages}, err
}

// Skip ends the delivery of a message that waits, whether or not a delivery of the message has failed. Skip
// replaces the message by a marker: a message of the type [message.TypeSkipped], which has the reason in the
// header "once-skip-reason". The marker is delivered like any other message, so that consumers see no gap in
// the sequence numbers. Skip erases the payload of the skipped message.
//
// A delivery that is already in flight is not cancelled. If a delivery in flight succeeds before Skip writes,
// Skip returns [ErrNotFound]. A second Skip of the same message changes nothing.
func (b *Box[TX]) Skip(ctx context.Context, id, reason string) error {
	if err := checkReason(reason); err != nil {
		return err
	}
	e, s, err := b.find(ctx, id)
	switch {
	case err != nil:
		return err
	case e.State == StateDelivered:
		return notFound(id)
	}
	m := s.message
	m.Headers, m.Payload = map[string]string{headerSkipReason: reason}, nil
	// The marker keeps the hash of the operation's key, so that logs still name the operation.
	if e.OpKey != "" {
		m.Headers = withKeyHash(m.Headers, e.OpKey)
	}
	headers, payload, err := sealed(b.cfg.Encrypter, &m)
	if err != nil {
		return err
	}
	return b.db.Within(ctx, store.ReadCommitted, func(ctx context.Context, r sqlplane.Runner) error {
		// A repeated Skip must not replace the reason of the first one.
		if m.Type != message.TypeSkipped {
			n, err := r.Exec(ctx, b.statement("update once_outbox set event_type = ?, headers = ?, payload = ?, encrypted = ? where part = ? and id = ?",
				message.TypeSkipped, headers, payload, b.cfg.Encrypter != nil, int64(s.part), s.id))
			if err != nil {
				return err
			}
			if n == 0 {
				// A relay has delivered the message meanwhile.
				return notFound(id)
			}
		}
		// The marker is due now, even if the message had failed or was stopped.
		if _, err = r.Exec(ctx, b.statement("update once_outbox_failed set next_at = NOW where part = ? and id = ?", int64(s.part), s.id)); err != nil {
			return err
		}
		return b.audit(ctx, r, "outbox skip", m.Topic, m.Key, reason, "message "+m.ID)
	})
}

// headerSkipReason is the header of a marker with the reason of the skip.
const headerSkipReason = "once-skip-reason"

// target returns what was paused, for the audit.
func target(key string) string {
	if key == "" {
		return "the topic"
	}
	return "one key"
}

func checkTarget(topic, key string) error {
	if topic == "" {
		return errors.New("outbox: the topic is empty. Try: a topic that once outbox list has shown")
	}
	if err := errors.Join(message.CheckText("topic", topic, message.MaxText), message.CheckText("key", key, message.MaxText)); err != nil {
		return err
	}
	return nil
}

func checkReason(reason string) error {
	if reason == "" {
		return errors.New("outbox: the reason is empty. Try: a reason, such as the number of a ticket")
	}
	if _, err := message.CheckHeaders(map[string]string{"reason": reason}); err != nil { // it becomes a header of the marker
		return errors.New("outbox: the reason contains control characters, begins or ends with a blank, or is not UTF-8. Try: one line of text")
	}
	return message.CheckText("reason", reason, MaxReason)
}
