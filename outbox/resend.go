package outbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// ErrNotDelivered says that a message still waits for its delivery, so that Resend cannot send it again.
var ErrNotDelivered = errors.New("the message is not delivered yet. Try: once outbox resume, if the delivery has failed")

// ErrErased says that a message was delivered and still has a row in the outbox, but that its payload and headers
// were erased.
var ErrErased = errors.New("the payload and headers of the message were erased, or the message never had them. Try: add a new message")

// Resend delivers a message again. The message must have been delivered, and must still be kept in the outbox:
// see Config.RetainDelivered. The second delivery has the same ID, sequence number and content as the first
// delivery, so that an inbox that has applied the message counts the second delivery as a duplicate. Resend is
// for consumers that have lost the message. The message waits in the outbox like any other message: if its
// delivery fails, the later messages of its key wait.
//
// The error is [ErrNotFound], [ErrNotDelivered] or [ErrErased] if the message cannot be sent again. If Resend
// is called again while the message still waits for its second delivery, the call has no effect.
func (b *Box[TX]) Resend(ctx context.Context, id, reason string) error {
	if err := checkReason(reason); err != nil {
		return err
	}
	e, s, err := b.find(ctx, id)
	switch {
	case err != nil:
		return err
	case e.State != StateDelivered:
		return notDelivered(id)
	}
	const columns = "part, topic, KEY, seq, event_id, event_type, source, headers, payload, encrypted, trace, op_scope, op_key, created_at"
	err = b.db.Within(ctx, store.ReadCommitted, func(ctx context.Context, r sqlplane.Runner) error {
		at := []any{int64(s.part), s.id}
		// A write comes first: SQLite refuses the lock to a transaction that has read before another one wrote,
		// and of two concurrent calls one waits here.
		if _, err := r.Exec(ctx, b.statement("update once_outbox_sent set sent_at = sent_at where part = ? and id = ?", at...)); err != nil {
			return err
		}
		n, err := r.Exec(ctx, b.statement("insert into once_outbox ("+columns+") select "+columns+" from once_outbox_sent where part = ? and id = ? and (length(payload) > 0 or length(headers) > 0)", at...))
		if err != nil {
			return err
		}
		deleted, err := r.Exec(ctx, b.statement("delete from once_outbox_sent where part = ? and id = ?", at...))
		switch {
		case err != nil:
			return err
		case deleted == 0: // another call was faster, or a sweep
			return notDelivered(id)
		case n == 0:
			return fmt.Errorf("outbox: message %s cannot be sent again: %w", id, ErrErased)
		}
		return b.audit(ctx, r, "outbox resend", e.Topic, e.Key, reason, "message "+e.ID)
	})
	if err == nil {
		b.note()
	}
	return err
}

func notDelivered(id string) error {
	return fmt.Errorf("outbox: message %s cannot be sent again: %w", id, ErrNotDelivered)
}
