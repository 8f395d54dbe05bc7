package inbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/seal"
	"github.com/oncelib/once/internal/sql/letter"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/store/sqlplane"
)

// redrive applies a dead letter whose redrive time has come. It returns only errors of the database. If the message
// fails, redrive stores the failed attempt.
func (in *Inbox[TX]) redrive(ctx context.Context, l *letter.Letter, fn Handler[TX]) error {
	it, failure := in.itemOf(l)
	lost := errors.Is(failure, errNotKept)
	if failure == nil || lost { // a letter whose payload was not kept may be stale by now
		var handlers error
		_, _, err := in.engine.Exec(ctx, in.op, func(ctx context.Context, tx TX) (once.Answer, error) {
			// The engine may run this function again, so the results of the earlier run are cleared.
			it.forget()
			handlers = nil
			return once.Answer{}, in.applyLetter(ctx, tx, l, it, func() error {
				if lost {
					handlers = failure
					return handlers
				}
				handlers = in.call(ctx, tx, it.m, fn)
				return handlers
			})
		})
		switch {
		case err == nil:
			// The outcome is empty if another process has taken the letter first.
			if it.outcome != "" {
				in.tellOutcome(ctx, it)
				in.tellSameBodies(ctx, it)
			}
			if it.drains {
				_, err = in.drain(ctx, it.stream(), fn)
				return err
			}
			return nil
		case !errors.Is(handlers, ErrHandlerTimeout) && !in.blames(ctx, err):
			return err
		}
		failure = cause(handlers, err)
	}
	a := letter.Attempt{Node: in.cfg.Node, Error: failure.Error(), Trace: l.Trace}
	if err := letter.Again(ctx, in.db, l.UID, a); err != nil {
		return err
	}
	in.tell(ctx, Event{Type: EventDeadLettered, Message: it.m, From: StateDeadLettered, To: StateDeadLettered, Err: failure, Attempt: l.Attempts + 1, Class: l.Class, Letter: l.UID})
	return nil
}

// itemOf returns the message of a letter, or an error that says why the message cannot be applied.
func (in *Inbox[TX]) itemOf(l *letter.Letter) (*item, error) {
	it := &item{from: StateDeadLettered, hash: l.Hash, envelope: letter.Envelope(l.Topic, l.Key, l.Type), result: new(Result)}
	it.m = message.Message{ID: l.EventID, Source: l.Source, Topic: l.Topic, Key: l.Key, Type: l.Type, Seq: l.Seq, Trace: l.Trace, CreatedAt: l.CreatedAt}
	it.ordered = in.cfg.Order != AnyOrder && l.Key != "" && l.Seq > 0
	switch l.Class {
	case classMismatch:
		return it, errSameID
	case classMalformed: // some fields of the message may come from storable, not from the sender
		return it, errors.New("the message is malformed, so it is not given to a handler. Try: have the sender send a well-formed message with the same ID. Discard this dead letter only if it still waits after the inbox has applied that message, because the inbox does not apply the message of a discarded dead letter")
	}
	if err := l.Open(in.cfg.Encrypter); err != nil {
		return it, err
	}
	var err error
	it.m.Payload = l.Payload
	it.m.Headers, err = seal.DecodeHeaders(l.Headers)
	// An encrypted payload is never empty, so its length says nothing before it is decrypted.
	if l.Class == classTooLarge && len(l.Payload) == 0 {
		err = errNotKept
	}
	return it, err
}

var errNotKept = errors.New("the payload of the message was too large and was not stored. Try: set a larger Config.MaxPayload, and then have the sender send the same message again, with the same ID: the inbox applies it in place of this dead letter. Do not discard this dead letter before that, because the inbox does not apply the message of a discarded dead letter")

// applyLetter applies the message of a letter, and resolves the letter in the same transaction.
func (in *Inbox[TX]) applyLetter(ctx context.Context, tx TX, l *letter.Letter, it *item, apply func() error) error {
	r, d := in.db.On(tx), in.db.Dialect()
	// The letter may be gone: another process has resolved it, or an operator has discarded it.
	if ok, err := letter.Take(ctx, r, d, l.UID); !ok || err != nil {
		return err
	}
	var positions map[stream]*position
	var err error
	state := letter.StateApplied
	if it.ordered {
		if positions, err = in.lock(ctx, r, []stream{it.stream()}); err != nil {
			return err
		}
		at := positions[it.stream()]
		switch {
		// A message with this Seq or a later one was applied, so the letter comes too late.
		case it.m.Seq <= at.seq:
			it.outcome, state = Stale, letter.StateStale
		case in.cfg.Order == InOrder && it.m.Seq > at.seq+1 && !in.cfg.beginsAt(at):
			return notStoredError{fmt.Errorf("earlier messages of the key are missing: this message has Seq %d, and the last applied message has Seq %d. Try: redrive the dead letter again when the missing messages have arrived", it.m.Seq, at.seq)}
		default:
			// The position moves before the handler runs. A failed handler rolls it back.
			at.move(&it.m)
			it.outcome, it.drains = Applied, at.parked > 0
		}
	} else if it.outcome, err = in.revive(ctx, r, it); err != nil {
		return err
	} else if it.outcome == Duplicate {
		state = letter.StateStale
	}
	if it.outcome == Applied {
		if err := apply(); err != nil {
			return notStoredError{err}
		}
		if err := in.noteBodies(ctx, r, it); err != nil {
			return err
		}
	}
	if err := in.write(ctx, r, positions); err != nil {
		return err
	}
	return letter.Resolve(ctx, r, d, l.UID, state)
}

// revive marks the ID of a dead letter as the ID of an applied message. It returns Duplicate if the message
// was applied before. It returns errSameID if the ID belongs to another message.
func (in *Inbox[TX]) revive(ctx context.Context, r sqlplane.Runner, it *item) (Outcome, error) {
	n, err := r.Exec(ctx, in.statement("update once_inbox set processed_at = NOW where consumer = ? and source = ? and event_id = ? and payload_hash = ? and (envelope is null or envelope = ?) and processed_at is null",
		in.cfg.Consumer, it.m.Source, it.m.ID, it.hash, it.envelope))
	if n > 0 || err != nil {
		return Applied, err
	}
	k, err := in.find(ctx, r, &it.m)
	if k != nil {
		if _, same := k.outcome(it); !same {
			return "", notStoredError{errSameID}
		}
	}
	if k != nil || err != nil {
		return Duplicate, err
	}
	// The letter may have no row, for example because the inbox had an order when the message failed.
	return Applied, in.addIDs(ctx, r, []*item{it})
}
