package outbox

import (
	"context"

	"github.com/oncelib/once/internal/hold"
	"github.com/oncelib/once/internal/letter"
	"github.com/oncelib/once/store"
)

func letterID(m *Message) letter.ID {
	return letter.ID{Origin: letter.OriginOutbox, Source: m.Source, EventID: m.ID, Topic: m.Topic, Key: m.Key, Seq: m.Seq}
}

// removeWithLetters is remove, and ends the letters of the messages in the same transactions. A message can
// have a letter if it has failed, or if it is a marker.
func (r *Relay) removeWithLetters(ctx context.Context, items []*item, held []hold.Part) (removed int64, err error) {
	var ids []messageID
	for _, it := range items {
		id := messageID{it.stored.part, it.id}
		if !r.cfg.DeadLetters || (it.part.failure(it.id) == nil && it.message.Type != TypeSkipped) {
			ids = append(ids, id)
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
	n, err := r.remove(ctx, ids, held)
	return removed + n, err
}

func (r *Relay) removeWithLetter(ctx context.Context, id messageID, m *Message, held []hold.Part) (removed int64, err error) {
	state := letter.StateApplied
	if m.Type == TypeSkipped {
		state = letter.StateDiscarded
	}
	err = letter.Within(ctx, r.db, func(ctx context.Context, tx store.Runner) (err error) {
		if removed, err = r.removeIn(ctx, tx, []messageID{id}, held); err != nil || removed == 0 { // another process has the part
			return err
		}
		return letter.ResolveMessage(ctx, tx, r.db.Dialect(), letterID(m), state)
	})
	return removed, err
}

// writeFailure runs s, which writes a failure down, and keeps the failed delivery. A message that is
// stopped becomes a letter. After a lost answer to COMMIT, a delivery may be kept twice.
func (r *Relay) writeFailure(ctx context.Context, s store.Statement, it *item, stopped bool) (written int64, err error) {
	if !r.cfg.DeadLetters {
		return r.db.Pool().Exec(ctx, s)
	}
	m := &it.message
	err = letter.Within(ctx, r.db, func(ctx context.Context, tx store.Runner) (err error) {
		if written, err = tx.Exec(ctx, s); err != nil || written == 0 {
			return err
		}
		n, first, _, err := letter.Note(ctx, tx, r.db.Dialect(), letterID(m), letter.Attempt{Node: r.cfg.Node, Error: errorText(it.err), Trace: m.Trace})
		if err != nil || !stopped {
			return err
		}
		class := "exhausted"
		if IsPermanent(it.err) {
			class = "permanent"
		}
		return letter.Bury(ctx, tx, r.db.Dialect(), &letter.Letter{ // the payload stays in the outbox
			ID: letterID(m), Type: m.Type, Trace: m.Trace, CreatedAt: m.CreatedAt,
			Class: class, Error: errorText(it.err), Attempts: n, FirstFailedAt: first,
		})
	})
	return written, err
}
