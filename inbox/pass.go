package inbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/sql/kind"
	"github.com/oncelib/once/internal/sql/letter"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// pass applies items in one transaction. If the error is nil, the items have their outcomes. After an error
// nothing was applied, unless the answer to the COMMIT was lost. If separately is true, each message has a savepoint,
// and a message can fail alone. Otherwise the first failed message ends the pass with an error.
func (in *Inbox[TX]) pass(ctx context.Context, items []*item, separately bool, fn Handler[TX]) error {
	asked, runs := time.Now(), 0
	_, _, err := in.engine.Exec(ctx, in.op, func(ctx context.Context, tx TX) (once.Answer, error) {
		if runs++; runs == 1 {
			// Later runs of the engine do not count: their wait includes the work of earlier runs.
			wait := time.Since(asked)
			for _, it := range items {
				it.wait = max(it.wait, wait)
			}
		}
		p := pass[TX]{in: in, tx: tx, r: in.db.On(tx), separately: separately, fn: fn, failed: map[stream]bool{}}
		return once.Answer{}, p.run(ctx, items)
	})
	return err
}

// pass is the state of one transaction that applies messages.
type pass[TX any] struct {
	in         *Inbox[TX]
	tx         TX
	r          sqlplane.Runner
	separately bool
	fn         Handler[TX]

	positions map[stream]*position
	failed    map[stream]bool               // keys with a failed message in this pass
	parked    map[*position]map[int64]*item // the messages that this pass has parked
}

// run applies items. The IDs come first and the positions second in every process, so that two passes do not deadlock.
func (p *pass[TX]) run(ctx context.Context, items []*item) (err error) {
	var byID, replacing []*item
	var streams []stream
	for _, it := range items {
		// The engine may run this again after a deadlock, so the outcomes of the earlier run are cleared.
		it.forget()
		switch {
		case it.ordered:
			it.replaces = "" // blocked finds it again
			streams = append(streams, it.stream())
		case it.replaces != "":
			replacing = append(replacing, it)
		default:
			byID = append(byID, it)
		}
	}
	for _, it := range replacing {
		if err := p.in.replace(ctx, p.r, it); err != nil {
			return err
		}
	}
	if err := p.in.addIDs(ctx, p.r, byID); err != nil {
		return err
	}
	if p.positions, err = p.in.lock(ctx, p.r, streams); err != nil {
		return err
	}
	if p.in.cfg.fromAny() {
		for s, at := range p.positions {
			if at.begun() {
				p.in.firsts.forget(s)
			}
		}
	}
	for _, it := range inTurn(items) {
		if err := p.apply(ctx, it); err != nil {
			return err
		}
	}
	for _, it := range byID { // a message that was not applied must be new at its next delivery
		if it.err != nil {
			if err := p.r.Append(ctx, store.Statement{SQL: p.in.sql.removeID, Args: []any{p.in.cfg.Consumer, it.m.Source, it.m.ID}, Rows: 1}); err != nil {
				return err
			}
		}
	}
	if err := p.in.noteBodies(ctx, p.r, items...); err != nil {
		return err
	}
	return p.in.write(ctx, p.r, p.positions)
}

// apply applies one message if the turn of the message has come.
func (p *pass[TX]) apply(ctx context.Context, it *item) error {
	s := it.stream()
	// The later message may rely on the effect of the earlier one.
	if it.m.Key != "" && p.failed[s] {
		it.err, it.behind = errBehind, true
		return nil
	}
	at := p.positions[s]
	if it.ordered {
		switch next, err := p.turn(ctx, it, at); {
		case err != nil:
			return err
		case !next:
			return nil
		}
	}
	if err := p.call(ctx, it); err != nil {
		return err
	}
	if it.err != nil {
		p.failed[s] = true
		return nil //nolint:nilerr // the message has failed, the pass has not // the message has failed, but the pass continues
	}
	it.outcome = Applied
	if it.isMarker() {
		it.outcome = Skipped
	}
	if it.ordered {
		return p.move(ctx, at, it)
	}
	return nil
}

var errBehind = errors.New("the message was not tried, because an earlier message of its key has failed. Try: deliver the message again after the earlier one")

// ErrTooFarAhead says that earlier messages of the key are missing, and that the message cannot be parked (stored
// in the database until they arrive) because its payload is longer than Config.MaxPayload. After ErrTooFarAhead,
// the message must be delivered again later.
var ErrTooFarAhead = errors.New("inbox: the message cannot be applied yet, because earlier messages of its key are missing, and its payload is too large to be stored until they arrive")

// turn reports whether a message is the next message of its key. If it is not, turn sets the outcome or the error
// of the message.
func (p *pass[TX]) turn(ctx context.Context, it *item, at *position) (bool, error) {
	seq := it.m.Seq
	it.reused = seq <= at.seq && at.recent.other(seq, it.m.ID)
	if p.in.cfg.Order == LatestVersion {
		switch {
		case seq < at.seq:
			it.outcome = Stale
		case seq == at.seq:
			it.outcome = Duplicate
		case it.isMarker(): // the marker replaces a message that is never applied
			it.outcome = Skipped
		case seq-at.seq > p.in.cfg.MaxJump:
			it.refuse(classJump, errJump(seq, at.seq, p.in.cfg.MaxJump))
		default:
			return true, nil
		}
		return false, nil
	}
	// If an earlier message of the key has arrived in this process and was not applied, the key begins with that
	// message.
	if p.in.cfg.beginsAt(at) && seq <= p.in.cfg.MaxJump {
		at.begin(p.in.firsts.of(at.stream, seq))
		it.begins = true
	}
	switch {
	// Also a message that was applied before: with InOrder every smaller Seq was applied or skipped.
	case seq <= at.seq:
		it.outcome = Duplicate
	case p.in.cfg.beginsAt(at) && seq > p.in.cfg.MaxJump:
		it.refuse(classJump, errJump(seq, at.seq, p.in.cfg.MaxJump))
	// A dead letter blocks its key, except for the marker that replaces the message.
	case seq == at.seq+1 && (!at.dead || it.isMarker()):
		return true, nil
	case seq == at.seq+1:
		return p.blocked(ctx, it)
	default:
		starts, err := p.starts(ctx, it, at)
		if starts || err != nil {
			return starts, err
		}
		return false, p.park(ctx, it, at)
	}
	return false, nil
}

// starts reports whether the message is the first message of its key after the sender was renumbered (see
// Renumber). It is not if an earlier message of the key is parked or is a dead letter.
func (p *pass[TX]) starts(ctx context.Context, it *item, at *position) (bool, error) {
	if at.dead {
		return false, nil
	}
	for seq := range p.parked[at] { // a query may not find these rows yet, because they may be sent with the COMMIT
		if seq < it.m.Seq {
			return false, nil
		}
	}
	return p.in.follows(ctx, p.r, it, at)
}

// follows does the work of starts, but knows only the parked messages that a query finds.
func (in *Inbox[TX]) follows(ctx context.Context, r sqlplane.Runner, it *item, at *position) (is bool, err error) {
	s := in.statement(`select 1 from once_inbox_start where consumer = ? and source = ? and seq = ? and not exists (
 select 1 from once_inbox_parked where consumer = ? and source = ? and topic = ? and KEY = ? and seq < ?)`,
		append([]any{in.cfg.Consumer, at.source, it.m.Seq - 1}, in.parkedArgs(at.stream, it.m.Seq)...)...)
	err = r.Query(ctx, s, func(sqlplane.Row) error { is = true; return nil })
	return is, err
}

// blocked does the work of turn for a message whose position belongs to a dead letter. This is usually the
// letter of the same message. If it is not, the message must not be acknowledged as dead-lettered.
func (p *pass[TX]) blocked(ctx context.Context, it *item) (bool, error) {
	uid, class, err := letter.DeadOf(ctx, p.r, p.in.db.Dialect(), p.in.letterID(&it.m), it.hash)
	switch {
	case err == nil && class == classTooLarge: // no redrive can apply the letter, but this delivery can
		it.replaces = uid
		return true, nil
	case uid != "" || err != nil:
		it.outcome = DeadLettered
		return false, err
	}
	id := p.in.letterID(&it.m)
	s := p.in.statement("select event_id from once_deadletter where origin = ? and consumer = ? and source = ? and topic = ? and KEY = ? and seq = ? and state = 'dead' and class not in (?, ?, ?) limit 1",
		id.Origin, id.Consumer, id.Source, id.Topic, id.Key, id.Seq, classMismatch, classMalformed, classJump)
	holder := ""
	if err := p.r.Query(ctx, s, func(row sqlplane.Row) error { return row.Scan(&holder) }); err != nil {
		return false, err
	}
	if holder == "" { // no letter belongs to the position any more, so the key has nothing to wait for
		return true, nil
	}
	it.refuse(classMismatch, fmt.Errorf("another message of the key, %s, has the same Seq %d, and is a dead letter. Try: a sender that numbers its messages without repeating a number", holder, it.m.Seq))
	return false, nil
}

// call runs the handler, and stores the error of the handler in the item. It returns an error only if the pass
// must end.
func (p *pass[TX]) call(ctx context.Context, it *item) error {
	switch {
	// A marker has no content, so no handler can use it.
	case it.isMarker():
		return nil
	// Savepoints cost round trips. Without them the first failure ends the whole pass, and the caller
	// repeats the pass with savepoints. A message that begins its key has a savepoint: if its handler fails, the
	// beginning commits nevertheless, before another process can begin the key with a later message.
	case !p.separately && !it.begins:
		if it.err = p.in.call(ctx, p.tx, it.m, p.fn); it.err != nil {
			return notStoredError{it.err}
		}
		return nil
	}
	claim, _, err := p.in.joiner.Join(ctx, p.tx, store.BeginOptions{})
	if err != nil {
		return err
	}
	if it.err = p.in.call(ctx, claim.Tx(), it.m, p.fn); it.err == nil {
		if it.err = claim.Commit(ctx, store.Change{}); it.err == nil {
			return nil
		}
	}
	// After a timeout the handler may still use the transaction, so it must not commit.
	if isTimeout(it.err) || !p.in.blames(ctx, it.err) { // an error such as a deadlock ends the whole transaction
		return it.err
	}
	// If ctx has ended, the savepoint must still be rolled back: other messages share the transaction.
	return claim.Rollback(context.WithoutCancel(ctx))
}

// move advances the position of a key to an applied message.
func (p *pass[TX]) move(ctx context.Context, at *position, it *item) error {
	if it.replaces != "" {
		if err := p.in.resolveReplaced(ctx, p.r, it); err != nil {
			return err
		}
	}
	at.move(&it.m)
	// No row of the key is parked, so no row can need a delete. This saves a statement.
	if at.parked == 0 {
		return nil
	}
	n, err := p.in.unpark(ctx, p.r, at.stream, it.m.Seq) // the message may have been delivered again while it was parked
	at.parked -= n
	it.drains = at.parked > 0
	return err
}

// blames reports whether a message or its handler has caused an error, so that the error counts as an
// attempt. A failure of the database, and the end of ctx, do not count.
func (in *Inbox[TX]) blames(ctx context.Context, err error) bool {
	if ctx.Err() != nil || errors.Is(err, errKnown) {
		return false
	}
	switch once.CodeOf(err) {
	// An outage of the database would otherwise use up the attempts of every message.
	case once.CodeUnavailable, once.CodeConflict, once.CodeInFlight:
		return false
	}
	switch kind.In(in.engine.Store(), err) {
	case store.KindRetry, store.KindUnavailable, store.KindLost, store.KindBusy:
		return false
	}
	return true
}

// isBusy reports whether the handler of an item has failed because a wait of the database was too long, such
// as a wait for a lock. Then the error of the transaction says nothing about the other items.
func (in *Inbox[TX]) isBusy(ctx context.Context, items []*item, err error) bool {
	if ctx.Err() != nil || kind.In(in.engine.Store(), err) != store.KindBusy && once.CodeOf(err) != once.CodeInFlight {
		return false
	}
	return slices.ContainsFunc(items, (*item).failed)
}
