package property

import (
	"context"

	"github.com/oncelib/once/store"
)

// gatedTxn is a transaction of a node, or a join inside of its caller's.
type gatedTxn struct {
	store.Transaction[tx]
	s      *gated
	c      *call
	op     *operation
	claims bool // and frees the operation at its end
	joined bool
	gone   bool // its connection, or its handler has ended it: what follows cannot fail in another way
}

func (t *gatedTxn) Unwrap() any { return t.Transaction }

// leave lets the server find out what becomes of the transaction.
func (t *gatedTxn) leave(ch *store.Change) {
	g := &ghost{txn: t.Transaction, change: ch}
	if t.claims {
		g.frees = []*operation{t.op}
	}
	t.s.n.w.ghosts = append(t.s.n.w.ghosts, g)
}

func (t *gatedTxn) ended() {
	if t.claims {
		t.s.n.w.free(t.op)
	}
	t.claims = false
}

func (t *gatedTxn) Commit(ctx context.Context, ch store.Change) (err error) {
	w, at := t.s.n.w, atCommit
	if t.joined {
		at = atJoined
	}
	over := ctx.Err()
	o := w.pass(t.c, at)
	defer w.lock()()
	if over != nil && !t.joined { // which may have a ROLLBACK behind it, in the same time
		w.breakf("COMMIT was asked for under a context that is over: %v", over)
	}
	switch {
	case t.s.n.dead && !t.joined:
		t.leave(nil)
		return down()
	case t.s.n.dead:
		return down()
	case t.gone:
		o.fault = none
	case o.fault == commitLate:
		w.meet(string(o.fault))
		t.c.lost = true
		t.leave(&ch)
		return lost()
	}
	t.s.strike(o, ch.ID, func() { err = t.Transaction.Commit(ctx, ch) })
	t.c.lost = t.c.lost || store.KindOf(err) == store.KindLost
	t.ended()
	return err
}

func (t *gatedTxn) Rollback(ctx context.Context) (err error) {
	w := t.s.n.w
	o := w.pass(t.c, atRollback)
	defer w.lock()()
	switch {
	case t.joined && t.s.n.dead:
		return down()
	case !t.joined && (t.s.n.dead || o.fault == rollbackLate):
		if o.fault != none {
			w.meet(string(o.fault))
		}
		t.leave(nil)
		t.c.unsure = true
		return down()
	case o.fault == rollbackLate: // its transaction is the caller's
		o.fault = none
	}
	t.s.strike(o, t.op.id, func() { err = t.Transaction.Rollback(ctx) })
	t.gone = store.KindOf(err) == store.KindUnavailable
	t.c.unsure = t.c.unsure || t.gone
	t.ended()
	return err
}
