package outbox

import (
	"context"

	"github.com/oncelib/once/internal/sql/hold"
	"github.com/oncelib/once/internal/sql/letter"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

func letterID(m *message.Message) letter.ID {
	return letter.ID{Origin: letter.OriginOutbox, Source: m.Source, EventID: m.ID, Topic: m.Topic, Key: m.Key, Seq: m.Seq}
}

// removeWithLetters removes messages as remove does, and ends the dead letters of these messages in the same
// transactions. A message can have a dead letter if it has failed, or if it is a marker.
func (r *Relay) removeWithLetters(ctx context.Context, items []*item, held []hold.Part) (removed int64, err error) {
	var ids []messageID
	failed := false
	for _, it := range items {
		id := messageID{it.part, it.id}
		if !r.cfg.DeadLetters || (it.failure == nil && it.message.Type != message.TypeSkipped) {
			// These messages have no letter, so one statement removes all of them.
			ids, failed = append(ids, id), failed || it.failure != nil
			continue
		}
		n, err := r.removeWithLetter(ctx, id, &it.message, held)
		if err != nil {
			return removed, err
		}
		removed += n
	}
	if len(ids) == 0 {
		return removed, nil
	}
	n, err := r.remove(ctx, ids, failed, held)
	return removed + n, err
}

func (r *Relay) removeWithLetter(ctx context.Context, id messageID, m *message.Message, held []hold.Part) (removed int64, err error) {
	state := letter.StateApplied
	if m.Type == message.TypeSkipped {
		state = letter.StateDiscarded
	}
	err = letter.Within(ctx, r.db, func(ctx context.Context, tx sqlplane.Runner) (err error) {
		if removed, err = r.removeIn(ctx, tx, []messageID{id}, true, held); err != nil || removed == 0 { // another process has the part, and ends the letter
			return err
		}
		return letter.ResolveMessage(ctx, tx, r.db.Dialect(), letterID(m), state)
	})
	return removed, err
}

// writeFailures runs s, which stores the failures of items, and stores each failed delivery for package
// deadletter. A stopped message becomes a dead letter. If the answer to COMMIT was lost, a delivery may be
// stored twice.
func (r *Relay) writeFailures(ctx context.Context, s store.Statement, items []*item) (written int64, err error) {
	if !r.cfg.DeadLetters {
		return r.db.Pool().Exec(ctx, s)
	}
	err = letter.Within(ctx, r.db, func(ctx context.Context, tx sqlplane.Runner) (err error) {
		if written, err = tx.Exec(ctx, s); err != nil || written < int64(len(items)) { // the caller tries the items one by one: another process has a part, or a person has skipped a message
			return err
		}
		for _, it := range items {
			if err := r.note(ctx, tx, it); err != nil {
				return err
			}
		}
		return nil
	})
	return written, err
}

// note stores a failed delivery in the transaction tx, and a dead letter if no attempt follows.
func (r *Relay) note(ctx context.Context, tx sqlplane.Runner, it *item) error {
	m := &it.message
	n, first, _, err := letter.Note(ctx, tx, r.db.Dialect(), letterID(m), letter.Attempt{Node: r.cfg.Node, Error: errorText(it.err), Trace: m.Trace})
	if err != nil || !it.nextAt.IsZero() {
		return err
	}
	class := "exhausted"
	if retry.IsPermanent(it.err) {
		class = "permanent"
	}
	return letter.Bury(ctx, tx, r.db.Dialect(), &letter.Letter{ // without its payload, which stays in the outbox
		ID: letterID(m), Type: m.Type, Trace: m.Trace, CreatedAt: m.CreatedAt,
		Class: class, Error: errorText(it.err), Attempts: n, FirstFailedAt: first,
	})
}
