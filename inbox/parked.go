package inbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/seal"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/store/sqlplane"
)

// park stores a message that arrives before an earlier message of its key.
func (p *pass[TX]) park(ctx context.Context, it *item, at *position) error {
	it.outcome = Parked
	hash, id, there := []byte(nil), "", false
	// A row that this pass has parked may be sent with the COMMIT, so that a query does not find it yet.
	if earlier := p.parked[at][it.m.Seq]; earlier != nil {
		hash, id, there = earlier.hash, earlier.m.ID, true
	} else {
		s := p.in.statement("select event_id, payload_hash from once_inbox_parked where "+isParked, p.in.parkedArgs(at.stream, it.m.Seq)...)
		err := p.r.Query(ctx, s, func(row sqlplane.Row) error {
			there = true
			return row.Scan(&id, &hash)
		})
		if err != nil {
			return err
		}
	}
	if there {
		// The message may have been parked by an earlier delivery. Another message with the same Seq is a mistake.
		if id != it.m.ID || !sameBody(hash, it.hash) {
			it.refuse(classMismatch, fmt.Errorf("another message of the key, %s, has the same Seq %d, and waits in the inbox for earlier messages. Try: a sender that numbers its messages without repeating a number", id, it.m.Seq))
		}
		return nil
	}
	headers, payload, err := p.in.sealed(&it.m)
	if err != nil {
		return err
	}
	s := p.in.statement(`insert into once_inbox_parked (consumer, source, topic, KEY, seq, event_id, event_type, payload_hash, headers, payload, encrypted, trace, created_at, parked_at)
 values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NOW)`, append(p.in.parkedArgs(at.stream, it.m.Seq),
		it.m.ID, it.m.Type, it.hash, headers, payload, p.in.cfg.Encrypter != nil, it.m.Trace, dialect.StoredTime(p.in.db.Dialect(), it.m.CreatedAt))...)
	if err := p.r.Append(ctx, s); err != nil {
		return err
	}
	at.parked++
	if p.parked == nil {
		p.parked = map[*position]map[int64]*item{}
	}
	if p.parked[at] == nil {
		p.parked[at] = map[int64]*item{}
	}
	p.parked[at][it.m.Seq] = it
	return nil
}

const isParked = "consumer = ? and source = ? and topic = ? and KEY = ? and seq = ?"

func (in *Inbox[TX]) parkedArgs(s stream, seq int64) []any {
	return []any{in.cfg.Consumer, s.source, s.topic, s.key, seq}
}

// The number of rows keeps position.parked correct if the message was not parked.
// unpark deletes a parked message, and returns how many rows it deleted: 1 or 0.
func (in *Inbox[TX]) unpark(ctx context.Context, r sqlplane.Runner, s stream, seq int64) (int64, error) {
	return r.Exec(ctx, in.statement("delete from once_inbox_parked where "+isParked, in.parkedArgs(s, seq)...))
}

// nextParked returns the next message of a key. It returns nil if this message is not parked, or if its next
// attempt is not due.
func (in *Inbox[TX]) nextParked(ctx context.Context, r sqlplane.Runner, at *position) (it *item, err error) {
	s := in.statement("select event_id, event_type, payload_hash, headers, payload, encrypted, trace, created_at from once_inbox_parked where "+isParked+
		" and (next_at is null or next_at <= NOW)", in.parkedArgs(at.stream, at.seq+1)...)
	var headers, payload []byte
	var encrypted bool
	err = r.Query(ctx, s, func(row sqlplane.Row) error {
		it = &item{from: StateParked, ordered: true, result: new(Result)}
		it.m.Source, it.m.Topic, it.m.Key, it.m.Seq = at.source, at.topic, at.key, at.seq+1
		return row.Scan(&it.m.ID, &it.m.Type, &it.hash, &headers, &payload, &encrypted, &it.m.Trace, (*dialect.Time)(&it.m.CreatedAt))
	})
	if err != nil || it == nil {
		return nil, err
	}
	if err = in.open(&it.m, headers, payload, encrypted); err != nil {
		// The message does not become a dead letter, because it can be applied after the encryption key is repaired.
		return nil, &unreadableError{err}
	}
	return it, nil
}

// unreadableError says that a parked message cannot be read, for example because its encryption key is
// missing. The message stays parked, because a dead letter could not be read either.
type unreadableError struct{ error }

func (e *unreadableError) Unwrap() error { return e.error }

// drain applies the parked messages of a key whose turn has come, each in a separate transaction. It stops
// after drainAtOnce messages, so that other keys do not wait for long. The result more reports whether parked
// messages may be left.
func (in *Inbox[TX]) drain(ctx context.Context, s stream, fn Handler[TX]) (more bool, err error) {
	for range drainAtOnce {
		if ctx.Err() != nil {
			return false, nil //nolint:nilerr // the caller ends // the caller has ended, and the rest is for Run
		}
		it, err := in.applyParked(ctx, s, fn)
		if it == nil || err != nil {
			return false, err
		}
		in.tellOutcome(ctx, it)
		in.tellSameBodies(ctx, it)
	}
	return true, nil
}

// drainAtOnce is how many parked messages of a key are applied before other keys have their turn.
const drainAtOnce = 1000

// applyParked applies the next message of a key if it is parked and due. It returns nil if no message was
// applied.
func (in *Inbox[TX]) applyParked(ctx context.Context, s stream, fn Handler[TX]) (it *item, err error) {
	var failure error // of the handler
	_, _, err = in.engine.Exec(ctx, in.op, func(ctx context.Context, tx TX) (once.Answer, error) {
		r := in.db.On(tx)
		// The engine may run this function again, so the results of the earlier run are cleared.
		it, failure = nil, nil
		positions, err := in.lock(ctx, r, []stream{s})
		if err != nil {
			return once.Answer{}, err
		}
		at := positions[s]
		// Another process has applied the message, or an operator must first decide about the dead letter.
		if at.dead || at.parked == 0 {
			return once.Answer{}, nil
		}
		if it, err = in.nextParked(ctx, r, at); it == nil || err != nil {
			return once.Answer{}, err
		}
		it.outcome = Skipped
		if !it.isMarker() {
			it.outcome = Applied
			if failure = in.call(ctx, tx, it.m, fn); failure != nil {
				return once.Answer{}, notStoredError{failure}
			}
		}
		at.move(&it.m)
		at.parked--
		s := in.statement("delete from once_inbox_parked where "+isParked, in.parkedArgs(at.stream, at.seq)...)
		// The lock of the position keeps other processes away, so a missing row is an error.
		s.Rows = 1
		if err := errors.Join(r.Append(ctx, s), in.noteBodies(ctx, r, it)); err != nil {
			return once.Answer{}, err
		}
		return once.Answer{}, in.write(ctx, r, positions)
	})
	// A timeout always counts as an attempt of the message, even if the error of the transaction looks like an outage.
	if err != nil && it != nil && (errors.Is(failure, ErrHandlerTimeout) || in.blames(ctx, err)) {
		return nil, in.parkedFailed(ctx, it, cause(failure, err))
	}
	if err != nil {
		return nil, err
	}
	return it, nil
}

// sealed returns the headers and the payload of m in their stored form, which may be encrypted.
func (in *Inbox[TX]) sealed(m *message.Message) (headers, payload []byte, err error) {
	if headers, err = seal.EncodeHeaders(m.Headers); err == nil {
		headers, payload, err = seal.Message(in.cfg.Encrypter, in.label(m), headers, m.Payload)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("inbox: message %s cannot be encrypted for storage: %w", m.ID, err)
	}
	return headers, payload, nil
}

// open decrypts the headers and payload of m, which sealed has encrypted.
func (in *Inbox[TX]) open(m *message.Message, headers, payload []byte, encrypted bool) (err error) {
	if encrypted {
		headers, payload, err = seal.OpenMessage(in.cfg.Encrypter, in.label(m), headers, payload)
	}
	if err == nil {
		m.Headers, err = seal.DecodeHeaders(headers)
	}
	if err != nil {
		return fmt.Errorf("inbox: the stored message %s cannot be decrypted: %w", m.ID, err)
	}
	m.Payload = payload
	return nil
}

// label returns a text that binds encrypted data to its message: if the data is copied into another row, it
// cannot be decrypted.
func (in *Inbox[TX]) label(m *message.Message) string {
	return "inbox\x00" + in.cfg.Consumer + "\x00" + m.Source + "\x00" + m.ID + "\x00"
}
