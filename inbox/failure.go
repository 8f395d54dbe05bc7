package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/oncelib/once/internal/base/seal"
	"github.com/oncelib/once/internal/sql/letter"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// Classes of dead letters.
const (
	classExhausted = "exhausted" // the attempts of the message are used up
	classPermanent = "permanent" // the handler has returned a permanent error
	classPanic     = "panic"     // the attempts of the message are used up, and the last attempt has panicked
	classMismatch  = "mismatch"  // another message has the same ID or the same position
	classJump      = "seq_jump"  // the Seq of the message is too far after the last applied Seq: see Config.MaxJump
	classMalformed = "malformed" // the message is not valid
	classTooLarge  = "too_large" // the payload is longer than Config.MaxPayload
)

var errSameID = errors.New("an earlier message has the same source and ID, but another body, topic, key or type. Try: a sender that gives every message a different ID")

// errNotNext says that a message is no longer the next one of its key. An earlier message has arrived since the
// handler was called.
var errNotNext = errors.New("the message cannot become a dead letter yet, because earlier messages of its key are missing. Try: deliver the message again after the earlier messages")

func errJump(seq, at, most int64) error {
	return fmt.Errorf("the Seq of the message is %d, which is more than %d (Config.MaxJump) above the last Seq of its key, %d. The inbox does not apply such a message, because it would then drop all later messages with a smaller Seq. Try: discard the dead letter if the Seq is wrong; if the sender really skips so many numbers, set a larger Config.MaxJump and redrive the dead letter", seq, most, at)
}

func errReusedSeq(seq int64) error {
	return fmt.Errorf("the inbox has already applied another message of the key with the same Seq %d, so it does not apply this message. Try: find out why the sender has used the number twice; its database may have lost commits", seq)
}

func errTooLarge(size, most int) error {
	return fmt.Errorf("the payload has %d bytes, at most %d are allowed (Config.MaxPayload), so the payload was not stored. Try: set a larger Config.MaxPayload, and then have the sender send the same message again, with the same ID: the inbox applies it in place of the dead letter. Do not discard the dead letter before that, because the inbox does not apply the message of a discarded dead letter", size, most)
}

// Refuse makes a dead letter of a message that cannot be handled, for example because it cannot be decoded. The
// parameter class is the class of the dead letter, such as "malformed". If the error is nil, acknowledge the
// message. If m lacks a required field, Refuse computes this field from the other fields of m. So a second
// delivery of the same message does not make a second dead letter.
func (in *Inbox[TX]) Refuse(ctx context.Context, m message.Message, class string, reason error) error {
	if reason == nil {
		reason = errors.New("the message was refused")
	}
	if class == "" {
		class = classMalformed
	}
	it := in.newItem(m)
	// The Seq of a message that cannot be decoded is not reliable, so the message must not block its key.
	it.ordered = false
	in.refuse(ctx, it, class, reason)
	return it.result.Err
}

// refuse makes a dead letter of a message without an attempt, and sets the result of the message.
func (in *Inbox[TX]) refuse(ctx context.Context, it *item, class string, reason error) {
	// Messages of these three classes were valid, so that their texts can be stored as they are.
	if class != classMismatch && class != classTooLarge && class != classJump {
		it.m = storable(it.m)
		if !it.isMarker() {
			it.envelope = letter.Envelope(it.m.Topic, it.m.Key, it.m.Type)
		}
	}
	if len(it.m.Payload) > in.cfg.MaxPayload {
		it.m.Payload = nil // the stored hash of the payload still distinguishes this message from others
	}
	outcome := DeadLettered
	err := letter.Within(ctx, in.db, func(ctx context.Context, r sqlplane.Runner) (err error) {
		outcome, err = in.bury(ctx, r, it, &letter.Letter{Class: class, Error: reason.Error(), Attempts: 1})
		return err
	})
	// The message cannot become a dead letter before its turn, so the broker must deliver it again later.
	if errors.Is(err, ErrTooFarAhead) {
		it.result.Err = retry.After(errors.Join(err, reason), in.firstPause())
		return
	}
	if err != nil {
		it.result.Err = fmt.Errorf("inbox: message %s was given up, but cannot be stored as a dead letter: %w", it.m.ID, errors.Join(err, reason))
		return
	}
	in.begun(it)
	in.finishDead(ctx, it, outcome, class, 1, reason)
}

// failed stores a failed attempt of a message, and sets its result: another delivery, or a dead letter.
func (in *Inbox[TX]) failed(ctx context.Context, it *item, failure error) {
	it.err = failure
	in.failedAll(ctx, []*item{it})
}

// failedAll does the same as failed for several messages, whose errors are set already. It uses one transaction.
// If this transaction fails, failedAll uses one transaction for each message.
func (in *Inbox[TX]) failedAll(ctx context.Context, items []*item) {
	if ctx.Err() != nil {
		// The caller has ended, and has interrupted the handlers: an interrupted message has not failed.
		for _, it := range items {
			it.result.Err = it.err
		}
		return
	}
	items = slices.Clone(items)
	slices.SortFunc(items, func(a, b *item) int { // all processes lock rows in the same order, so that they do not deadlock
		return cmp.Or(cmp.Compare(a.m.Source, b.m.Source), cmp.Compare(a.m.Topic, b.m.Topic), cmp.Compare(a.m.Key, b.m.Key), cmp.Compare(a.m.Seq, b.m.Seq), cmp.Compare(a.m.ID, b.m.ID))
	})
	fates := make([]fate, len(items))
	err := letter.Within(ctx, in.db, func(ctx context.Context, r sqlplane.Runner) (err error) {
		for i, it := range items {
			f := &fates[i]
			if *f, err = in.note(ctx, r, it, it.err); err != nil {
				return err
			}
			if !f.dead {
				// The key begins with this message, although the message has failed: see begin.
				err = in.begin(ctx, r, it)
			} else {
				f.outcome, err = in.bury(ctx, r, it, f.letter(it.err))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil && len(items) > 1 && store.KindOf(err) != store.KindLost { // one message may be the cause of the error, so each gets its own transaction; after a lost COMMIT the attempts may be stored already
		for _, it := range items {
			in.failedAll(ctx, []*item{it})
		}
		return
	}
	if err == nil {
		in.begun(items...)
	}
	for i, it := range items {
		switch f := &fates[i]; {
		case err != nil: // the attempt is not counted, so the message may have one attempt more than the policy allows
			it.result.Err = fmt.Errorf("inbox: the handler failed, and the failed attempt cannot be stored: %w; the error of the handler: %w", err, it.err)
			in.tell(ctx, Event{Type: EventFailed, Message: it.m, From: it.from, To: it.from, Err: it.result.Err})
		case f.dead:
			in.finishDead(ctx, it, f.outcome, f.class, f.attempt, it.err)
		default:
			it.result.Err = retry.After(it.err, f.wait)
			in.tell(ctx, Event{Type: EventFailed, Message: it.m, From: it.from, To: it.from, Err: it.err, Attempt: f.attempt, After: f.wait})
		}
	}
}

// parkedFailed does the same as failed for a parked message. No broker redelivers a parked message, so the row
// gets the time of the next attempt.
func (in *Inbox[TX]) parkedFailed(ctx context.Context, it *item, failure error) error {
	var f fate
	err := letter.Within(ctx, in.db, func(ctx context.Context, r sqlplane.Runner) (err error) {
		if f, err = in.note(ctx, r, it, failure); err != nil {
			return err
		}
		if !f.dead {
			_, err = r.Exec(ctx, in.statement("update once_inbox_parked set next_at = AGO(?) where "+isParked,
				append([]any{-f.wait.Microseconds()}, in.parkedArgs(it.stream(), it.m.Seq)...)...))
			return err
		}
		f.outcome, err = in.bury(ctx, r, it, f.letter(failure))
		return err
	})
	switch {
	case err != nil:
		return err
	case f.dead:
		in.finishDead(ctx, it, f.outcome, f.class, f.attempt, failure)
	default:
		in.tell(ctx, Event{Type: EventFailed, Message: it.m, From: it.from, To: it.from, Err: failure, Attempt: f.attempt, After: f.wait})
	}
	return nil
}

// finishDead sets the result of a message after bury. If another process has applied the message meanwhile,
// the outcome is not DeadLettered.
func (in *Inbox[TX]) finishDead(ctx context.Context, it *item, outcome Outcome, class string, attempt int, failure error) {
	it.outcome = outcome
	*it.result = Result{Outcome: outcome}
	if outcome != DeadLettered {
		in.tellOutcome(ctx, it)
		return
	}
	in.tell(ctx, Event{Type: EventDeadLettered, Message: it.m, From: it.from, To: StateDeadLettered, Err: failure, Attempt: attempt, Class: class, Letter: it.letter})
}

// fate is the decision after a failed attempt: the pause before the next attempt, or the class of the dead letter.
type fate struct {
	attempt int
	first   time.Time // time of the first failed attempt
	wait    time.Duration
	dead    bool
	class   string
	outcome Outcome
}

func (f *fate) letter(failure error) *letter.Letter {
	return &letter.Letter{Class: f.class, Error: failure.Error(), Attempts: f.attempt, FirstFailedAt: f.first}
}

// note stores a failed attempt, and asks the policy whether the message is tried again.
func (in *Inbox[TX]) note(ctx context.Context, r sqlplane.Runner, it *item, failure error) (f fate, err error) {
	n, first, now, err := letter.Note(ctx, r, in.db.Dialect(), in.letterID(&it.m), letter.Attempt{Node: in.cfg.Node, Error: failure.Error(), Trace: it.m.Trace})
	if err != nil {
		return f, err
	}
	f = fate{attempt: n, first: first}
	class, after := retry.Classify(failure)
	var stop retry.Reason
	f.wait, stop = in.cfg.Policy.Next(retry.FailedAttempt{Attempt: n, Class: class, After: after, Elapsed: now.Sub(first), Random: rand.Float64()})
	switch {
	case stop == retry.ReasonOverBudget: // the retry budget of the process is used up, which is no reason to give this message up
		f.wait = max(in.cfg.Policy.Cap, in.firstPause())
	case stop != "":
		f.dead, f.class = true, classOf(class, failure)
	}
	return f, nil
}

// classOf returns the class of the dead letter of a failed message.
func classOf(class retry.Class, failure error) string {
	switch {
	case class == retry.ClassFinal:
		return classPermanent
	case errors.As(failure, new(*panicError)):
		return classPanic
	}
	return classExhausted
}

// firstPause is the longest pause after a first failure.
func (in *Inbox[TX]) firstPause() time.Duration {
	if in.cfg.Policy.Base > 0 {
		return in.cfg.Policy.Base
	}
	return 100 * time.Millisecond
}

func (in *Inbox[TX]) letterID(m *message.Message) letter.ID {
	return letter.ID{Origin: letter.OriginInbox, Consumer: in.cfg.Consumer, Source: m.Source, EventID: m.ID, Topic: m.Topic, Key: m.Key, Seq: m.Seq}
}

// bury makes a dead letter of a message. The class, the error and the number of attempts of l are set
// already. If another process has applied the message meanwhile, bury writes no letter and returns another outcome.
func (in *Inbox[TX]) bury(ctx context.Context, r sqlplane.Runner, it *item, l *letter.Letter) (Outcome, error) {
	o, err := in.giveUp(ctx, r, it, l.Class)
	if o != DeadLettered || err != nil {
		return o, err
	}
	if err := in.buryReplaced(ctx, r, it); err != nil {
		return "", err
	}
	headers, err := seal.EncodeHeaders(it.m.Headers)
	if err != nil {
		return "", err
	}
	m := &it.m
	l.ID, l.Type = in.letterID(m), m.Type
	l.Headers, l.Payload, l.Hash, l.Trace, l.CreatedAt = headers, m.Payload, it.hash, m.Trace, m.CreatedAt
	// The letter is encrypted after its ID is set, because the ID is part of the encryption.
	if err := l.Seal(in.cfg.Encrypter); err != nil {
		return "", err
	}
	err = letter.Bury(ctx, r, in.db.Dialect(), l)
	it.letter = l.UID
	return DeadLettered, err
}

// giveUp stores the ID and the position of a message that becomes a dead letter, so that its handler does not
// run when the message is delivered again.
func (in *Inbox[TX]) giveUp(ctx context.Context, r sqlplane.Runner, it *item, class string) (Outcome, error) {
	switch {
	case class == classMismatch || class == classJump: // the position of this Seq belongs to another message, or the Seq is wrong
		return DeadLettered, nil
	case it.ordered:
		return in.giveUpPosition(ctx, r, it, class)
	}
	k, err := in.find(ctx, r, &it.m)
	if err != nil {
		return "", err
	}
	if k != nil {
		o, same := k.outcome(it)
		// Another message has this ID, so nothing is stored under the ID.
		if !same {
			o = DeadLettered
		}
		return o, nil
	}
	// The row has no processed_at: so a redelivery finds a dead letter, and a redrive can still apply the message.
	_, err = r.Exec(ctx, in.statement("insert into once_inbox (consumer, source, event_id, payload_hash, envelope, received_at) values (?, ?, ?, ?, ?, NOW)",
		in.cfg.Consumer, it.m.Source, it.m.ID, it.hash, it.envelope))
	return DeadLettered, err
}

// giveUpPosition marks the position of a message that becomes a dead letter, so that its key waits for a decision.
func (in *Inbox[TX]) giveUpPosition(ctx context.Context, r sqlplane.Runner, it *item, class string) (Outcome, error) {
	positions, err := in.lock(ctx, r, []stream{it.stream()})
	if err != nil {
		return "", err
	}
	at := positions[it.stream()]
	if in.cfg.beginsAt(at) {
		if it.m.Seq > in.cfg.MaxJump { // a wrong Seq must not become the first Seq of the key
			return DeadLettered, nil
		}
		at.begin(in.firsts.of(at.stream, it.m.Seq))
	}
	if in.cfg.Order == InOrder && it.m.Seq > at.seq+1 && !at.dead {
		follows, err := in.follows(ctx, r, it, at)
		if err != nil {
			return "", err
		}
		// The key waits for this message, not for the numbers before it, which are never used: see Renumber.
		if follows {
			at.begin(it.m.Seq)
		}
	}
	switch {
	case it.m.Seq == at.seq, it.m.Seq < at.seq && in.cfg.Order == InOrder:
		return Duplicate, nil
	case it.m.Seq < at.seq:
		return Stale, nil
	// The key does not wait for this message, because a later version may be applied without it.
	case in.cfg.Order == LatestVersion:
		return DeadLettered, nil
	case it.m.Seq > at.seq+1: // the letter would not block the key when the turn of the message comes
		reason := ErrTooFarAhead
		if class != classTooLarge {
			reason = errNotNext
		}
		return "", fmt.Errorf("%w: the message has Seq %d, and the inbox has already applied Seq %d of this key", reason, it.m.Seq, at.seq)
	}
	// The message may also be parked: the letter replaces the parked row.
	if at.parked > 0 {
		n, err := in.unpark(ctx, r, at.stream, it.m.Seq)
		if err != nil {
			return "", err
		}
		at.parked -= n
	}
	at.dead = true
	return DeadLettered, in.write(ctx, r, positions)
}

// begin stores the beginning of the sequence of a key if the failed message is the first message of its
// key. Otherwise, a later message that arrives during the pause would become the first message.
func (in *Inbox[TX]) begin(ctx context.Context, r sqlplane.Runner, it *item) error {
	if !it.ordered || !in.cfg.fromAny() {
		return nil
	}
	positions, err := in.lock(ctx, r, []stream{it.stream()})
	if err != nil {
		return err
	}
	if at := positions[it.stream()]; in.cfg.beginsAt(at) {
		at.begin(in.firsts.of(at.stream, it.m.Seq))
	}
	return in.write(ctx, r, positions)
}

// cause returns the error of a handler, or the engine's error if the handler has returned none.
func cause(handler, engine error) error {
	if handler != nil {
		return handler
	}
	return engine
}
