package memstore

import (
	"context"
	"errors"

	"github.com/oncelib/once/store"
)

var (
	errChanged = errors.New("memstore: a key that was read has changed meanwhile")
	errEnded   = errors.New("memstore: the handler has ended the transaction")
)

// claim takes id for as long as the transaction lasts. The caller has made sure
// that nobody else has it.
func (t *Tx) claim(id store.ID) {
	if !id.IsZero() {
		t.s.claims[id] = t
		t.claims = append(t.claims, id)
	}
}

// end frees what the transaction holds.
func (t *Tx) end() {
	for _, id := range t.claims {
		delete(t.s.claims, id)
	}
	t.claims, t.over = nil, true
}

// blocked returns the record that is in the way of a change to id.
func (t *Tx) blocked(id store.ID, expect store.Expect) (store.Record, bool) {
	if id.IsZero() {
		return store.Record{}, false
	}
	rec := t.s.inTheWay(id, t)
	switch {
	case rec.State == store.StateAbsent:
		return rec, expect.Fence != 0
	case rec.State == store.StateDone, expect.Fence == 0, rec.Fence != expect.Fence:
		return rec, true
	}
	return rec, expect.LeaseExpired && !rec.LeaseExpired
}

// commit applies the transaction and c, or nothing, and ends it.
func (t *Tx) commit(c store.Change) error {
	defer t.end()
	if err := t.prepare(c, 0); err != nil {
		return err
	}
	for _, r := range t.reads {
		if v, ok := t.s.table[r.key]; v != r.value || ok == r.gone {
			return &store.Error{Kind: store.KindRetry, Err: errChanged}
		}
	}
	for _, w := range t.writes {
		if w.gone {
			delete(t.s.table, w.key)
		} else {
			t.s.table[w.key] = w.value
		}
	}
	for _, p := range t.pending {
		if p.row == nil {
			delete(t.s.rows, p.id)
		} else {
			t.s.rows[p.id] = p.row
		}
	}
	return nil
}

// prepare adds c, and what was delayed after the first from statements, to what
// the commit will apply.
func (t *Tx) prepare(c store.Change, from int) error {
	if t.err != nil {
		return aborted(t.err)
	}
	if rec, blocked := t.blocked(c.ID, c.Expect); blocked {
		return taken(rec)
	}
	for _, list := range [...][]store.Statement{t.delayed[from:], c.Writes} {
		for _, s := range list {
			if err := t.exec(s); err != nil {
				return &store.Error{Kind: store.KindOther, Err: err}
			}
		}
	}
	t.delayed = t.delayed[:from]
	if !c.ID.IsZero() {
		p := pending{id: c.ID}
		if c.Next.State != store.StateAbsent {
			p.row = newRow(&c, t.s.live(c.ID), t.s.now())
		}
		t.pending = append(t.pending, p)
	}
	return nil
}

// txn is a transaction that memstore has opened for an operation.
type txn struct{ tx Tx }

func (t *txn) Tx() *Tx { return &t.tx }

func (t *txn) Statements() int { return t.tx.statements() }

func (t *txn) Commit(ctx context.Context, c store.Change) error {
	t.tx.s.mu.Lock()
	defer t.tx.s.mu.Unlock()
	if t.tx.over {
		return &store.Error{Kind: store.KindEnded, Err: errEnded}
	}
	if err := ctx.Err(); err != nil {
		t.tx.end()
		return down(err)
	}
	return t.tx.commit(c)
}

func (t *txn) Rollback(context.Context) error {
	t.tx.s.mu.Lock()
	defer t.tx.s.mu.Unlock()
	if t.tx.over {
		return &store.Error{Kind: store.KindEnded, Err: errEnded}
	}
	t.tx.end()
	return nil
}

// joined is an operation inside a transaction of the caller.
type joined struct {
	tx    *Tx
	since savepoint
}

// savepoint is how much a transaction had done at some moment. Reads are not
// undone: what was decided afterwards may rest on them.
type savepoint struct {
	writes, delayed, pending, count int
	err                             error
}

func (t *Tx) here() savepoint {
	return savepoint{len(t.writes), len(t.delayed), len(t.pending), t.count, t.err}
}

func (t *Tx) undo(to savepoint) {
	t.writes, t.delayed, t.pending, t.err = t.writes[:to.writes], t.delayed[:to.delayed], t.pending[:to.pending], to.err
}

func (j *joined) Tx() *Tx { return j.tx }

func (j *joined) Statements() int { return j.tx.statements() - j.since.count }

func (j *joined) Commit(ctx context.Context, c store.Change) error {
	j.tx.s.mu.Lock()
	defer j.tx.s.mu.Unlock()
	if j.tx.over {
		return &store.Error{Kind: store.KindEnded, Err: errEnded}
	}
	err := j.tx.prepare(c, j.since.delayed)
	if e := ctx.Err(); err == nil && e != nil {
		err = down(e)
	}
	if err != nil {
		j.tx.undo(j.since) // the caller may go on and commit
	}
	return err
}

func (j *joined) Rollback(context.Context) error {
	j.tx.s.mu.Lock()
	defer j.tx.s.mu.Unlock()
	if j.tx.over {
		return &store.Error{Kind: store.KindEnded, Err: errEnded}
	}
	j.tx.undo(j.since)
	return nil
}
