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

// pass applies items in one transaction. If it returns nil, the items have their outcomes; after an error nothing was applied, unless the answer to
// the commit was lost. If separately is set, each message has a savepoint, and a failing message fails alone; otherwise the first failure is the
// error.
func (in *Inbox[TX]) pass(ctx context.Context, items []*item, separately bool, fn Handler[TX]) error {
	asked, runs := time.Now(), 0
	_, _, err := in.engine.Exec(ctx, in.op, func(ctx context.Context, tx TX) (once.Answer, error) {
		if runs++; runs == 1 {
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

// pass is the state of one transaction.
type pass[TX any] struct {
	in         *Inbox[TX]
	tx         TX
	r          sqlplane.Runner
	separately bool
	fn         Handler[TX]

	positions map[stream]*position
	failed    map[stream]bool               // a message of the key has failed in this pass
	parked    map[*position]map[int64]*item // in this pass
}

func (p *pass[TX]) run(ctx context.Context, items []*item) (err error) {
	var byID []*item
	var streams []stream
	for _, it := range items {
		// The engine may run this again after a deadlock: an outcome of the run before must not stay.
		it.forget()
		if it.ordered {
			streams = append(streams, it.stream())
		} else {
			byID = append(byID, it)
		}
	}
	if err := p.in.addIDs(ctx, p.r, byID); err != nil {
		return err
	}
	if p.positions, err = p.in.lock(ctx, p.r, streams); err != nil {
		return err
	}
	for _, it := range inTurn(items) {
		if err := p.apply(ctx, it); err != nil {
			return err
		}
	}
	for _, it := range byID { // an ID without an applied message is deleted again
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

// apply applies one message, if it is its turn.
func (p *pass[TX]) apply(ctx context.Context, it *item) error {
	s := it.stream()
	// A later message of the key could have an effect that assumes the effect of the failed one.
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
		return nil //nolint:nilerr // the message has failed, the pass has not
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

// ErrTooFarAhead says that earlier messages of the key are missing, and that the message cannot be parked in
// the database because its payload is longer than Config.MaxPayload. Deliver the message again later.
var ErrTooFarAhead = errors.New("inbox: the message cannot be applied yet, because earlier messages of its key are missing, and its payload is too large to be stored until they arrive")

// turn reports whether a message with a position is the next one of its key. If not, it sets the outcome or error of the message.
func (p *pass[TX]) turn(ctx context.Context, it *item, at *position) (bool, error) {
	seq := it.m.Seq
	it.reused = seq <= at.seq && at.recent.other(seq, it.m.ID)
	if p.in.cfg.Order == LatestVersion {
		switch {
		case seq < at.seq:
			it.outcome = Stale
		case seq == at.seq:
			it.outcome = Duplicate
		case it.isMarker(): // the message that it replaces is never applied
			it.outcome = Skipped
		case seq-at.seq > p.in.cfg.MaxJump:
			it.refuse(classJump, errJump(seq, at.seq, p.in.cfg.MaxJump))
		default:
			return true, nil
		}
		return false, nil
	}
	switch {
	case seq <= at.seq:
		it.outcome = Duplicate
	case p.in.cfg.beginsAt(at) && seq > p.in.cfg.MaxJump:
		it.refuse(classJump, errJump(seq, at.seq, p.in.cfg.MaxJump))
	case p.in.cfg.beginsAt(at), seq == at.seq+1 && (!at.dead || it.isMarker()):
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

// starts reports whether a message ahead of its turn is the first one of its key since the sender was renumbered, and no earlier message is parked or
// a dead letter.
func (p *pass[TX]) starts(ctx context.Context, it *item, at *position) (is bool, err error) {
	if at.dead {
		return false, nil
	}
	for seq := range p.parked[at] { // their rows may still wait for the commit
		if seq < it.m.Seq {
			return false, nil
		}
	}
	s := p.in.statement(`select 1 from once_inbox_start where consumer = ? and source = ? and seq = ? and not exists (
 select 1 from once_inbox_parked where consumer = ? and source = ? and topic = ? and KEY = ? and seq < ?)`,
		append([]any{p.in.cfg.Consumer, at.source, it.m.Seq - 1}, p.in.parkedArgs(at.stream, it.m.Seq)...)...)
	err = p.r.Query(ctx, s, func(sqlplane.Row) error { is = true; return nil })
	return is, err
}

// blocked is turn for a message at the position of a dead letter, usually its own letter. If the letter does not hold this message, the message is
// not acknowledged as dead-lettered.
func (p *pass[TX]) blocked(ctx context.Context, it *item) (bool, error) {
	own, err := letter.IsDead(ctx, p.r, p.in.db.Dialect(), p.in.letterID(&it.m), it.hash)
	if own || err != nil {
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
	if holder == "" { // no letter holds the position, so the key has nothing to wait for
		return true, nil
	}
	it.refuse(classMismatch, fmt.Errorf("another message of the key, %s, has the same Seq %d, and is a dead letter. Try: a sender that numbers its messages without repeating a number", holder, it.m.Seq))
	return false, nil
}

// call runs the handler. It returns an error only if the pass must end.
func (p *pass[TX]) call(ctx context.Context, it *item) error {
	switch {
	// A marker has no content, and no handler expects it.
	case it.isMarker():
		return nil
	// Without savepoints, which cost round trips, the first failure ends the whole pass. Then the caller
	// repeats it separately.
	case !p.separately:
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
	// After a timeout the handler may still use the transaction, so the transaction must not commit.
	if isTimeout(it.err) || !p.in.blames(ctx, it.err) { // a deadlock, for example, ends the whole transaction
		return it.err
	}
	// The end of ctx must not leave the savepoint, and what it has written, in the transaction of the others.
	return claim.Rollback(context.WithoutCancel(ctx))
}

// move moves the position to an applied message.
func (p *pass[TX]) move(ctx context.Context, at *position, it *item) error {
	at.move(&it.m)
	// Saves a statement: no row of the key can have to be deleted.
	if at.parked == 0 {
		return nil
	}
	n, err := p.in.unpark(ctx, p.r, at.stream, it.m.Seq) // it was delivered again while it was parked
	at.parked -= n
	it.drains = at.parked > 0
	return err
}

// blames reports whether a message or its handler has caused an error, so that it counts as an attempt. Failures of the database, and the end of ctx,
// do not count.
func (in *Inbox[TX]) blames(ctx context.Context, err error) bool {
	if ctx.Err() != nil || errors.Is(err, errKnown) {
		return false
	}
	switch once.CodeOf(err) {
	// Otherwise an outage of the database would use up the attempts of every message.
	case once.CodeUnavailable, once.CodeConflict, once.CodeInFlight:
		return false
	}
	switch kind.In(in.engine.Store(), err) {
	case store.KindRetry, store.KindUnavailable, store.KindLost, store.KindBusy:
		return false
	}
	return true
}

// isBusy reports whether the handler of one of items has failed because of a timeout, such as the time for a statement. Then the error of the
// transaction says nothing about the other items.
func (in *Inbox[TX]) isBusy(ctx context.Context, items []*item, err error) bool {
	if ctx.Err() != nil || kind.In(in.engine.Store(), err) != store.KindBusy && once.CodeOf(err) != once.CodeInFlight {
		return false
	}
	return slices.ContainsFunc(items, (*item).failed)
}
