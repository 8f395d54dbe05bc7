package property

import (
	"context"
	"errors"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/storetest"
)

// place is where a call waits for its order.
type place string

const (
	atRead     place = "read"
	atBegin    place = "begin"
	atJoin     place = "join"
	atHandler  place = "handler"
	atCommit   place = "commit"
	atJoined   place = "commit of a join"
	atRollback place = "rollback"
	atSwap     place = "swap"
	atEnd      place = "end of the caller's transaction"
)

// order is what a call that waits shall meet.
type order struct {
	fault  fault
	rival  bool   // at a Taken: another call was really faster
	ending ending // of a handler
	commit bool   // the caller's transaction, after a Join
}

// gate is a call that waits for its order.
type gate struct {
	c    *call
	at   place
	open chan order
}

// pass waits for an order. On a node that is dead there is none to wait for.
func (w *world) pass(c *call, at place) order {
	w.mu.Lock()
	if c.node.dead {
		w.mu.Unlock()
		return order{ending: failing}
	}
	c.asked = true
	g := &gate{c, at, make(chan order, 1)}
	w.gates = append(w.gates, g)
	w.mu.Unlock()
	return <-g.open
}

// ghost is a claim that no call on this side of the network holds any more.
type ghost struct {
	txn    store.Transaction[tx]
	caller tx            // a transaction of a caller of Join
	swap   bool          // no transaction, a Swap
	change *store.Change // what may still be applied; nil: it can only be rolled back
	holder *holder       // who has sent the Swap, if it was no engine
	frees  []*operation
}

// gated is the store of one node: every call waits for its order, and whatever has no
// place in [storetest.Faults] happens here.
type gated struct {
	n *node
	f *storetest.Faults[tx]
}

func (s *gated) Unwrap() any { return s.f }

var errGone = errors.New("property: the node is dead, or the connection")

func down() error { return &store.Error{Kind: store.KindUnavailable, Err: errGone} }
func lost() error { return &store.Error{Kind: store.KindLost, Err: errGone} }

// strike plans o for the one call that run makes. A fault that was not met is a
// mistake of this test.
func (s *gated) strike(o order, id store.ID, run func()) {
	if o.fault.own() {
		run()
		return
	}
	p := storetest.Plan{At: []storetest.Point{storetest.Point(o.fault)}}
	if o.rival {
		p.Rival = func(context.Context) { s.n.w.rival(id) }
	}
	s.f.Arm(p)
	run()
	if hits := s.f.Heal(); len(hits) != 1 {
		s.n.w.breakf("%q was not reached", o.fault)
	}
	s.n.w.meet(string(o.fault))
}

func (s *gated) Read(ctx context.Context, id store.ID) (rec store.Record, err error) {
	w := s.n.w
	o := w.pass(callOf(ctx), atRead)
	defer w.lock()()
	if s.n.dead {
		return rec, down()
	}
	s.strike(o, id, func() { rec, err = s.f.Read(ctx, id) })
	return rec, err
}

func (s *gated) Swap(ctx context.Context, ch store.Change) (rec store.Record, err error) {
	w, c := s.n.w, callOf(ctx)
	o := w.pass(c, atSwap)
	defer w.lock()()
	switch {
	case s.n.dead:
		return rec, down()
	case o.fault == swapLate:
		w.meet(string(o.fault))
		c.lost = true
		w.ghosts = append(w.ghosts, &ghost{swap: true, change: &ch})
		return rec, lost()
	}
	s.strike(o, ch.ID, func() { rec, err = s.f.Swap(ctx, ch) })
	c.lost = c.lost || store.KindOf(err) == store.KindLost
	return rec, err
}

func (s *gated) Begin(ctx context.Context, ask store.BeginOptions) (txn store.Transaction[tx], rec store.Record, err error) {
	w, c := s.n.w, callOf(ctx)
	o := w.pass(c, atBegin)
	defer w.lock()()
	if s.n.dead {
		return nil, rec, down()
	}
	t := &gatedTxn{s: s, c: c, op: w.operation(ask.ID), claims: true}
	s.strike(o, ask.ID, func() { txn, rec, err = s.f.Begin(ctx, ask) })
	if err == nil && txn == nil && (o.fault == beginStale || ask.First) && t.op.claims == 0 {
		w.meet(metStale)
		if o.fault != none {
			w.meet(string(o.fault))
		}
		txn, rec, err = s.f.Begin(ctx, store.BeginOptions{ID: w.db.blind(ask.ID)})
	}
	if err == nil && rec.State == store.StateDone && ask.Durable {
		c.durable = true
	}
	if txn == nil {
		return nil, rec, err
	}
	t.Transaction = txn
	w.claim(t.op)
	if o.fault == beginGhost {
		w.meet(string(o.fault))
		t.leave(nil)
		return nil, store.Record{}, down()
	}
	c.txn = t
	return t, rec, err
}

func (s *gated) Join(ctx context.Context, user tx, ask store.BeginOptions) (txn store.Transaction[tx], rec store.Record, err error) {
	w, c := s.n.w, callOf(ctx)
	o := w.pass(c, atJoin)
	defer w.lock()()
	if s.n.dead {
		return nil, rec, down()
	}
	s.strike(o, ask.ID, func() { txn, rec, err = s.f.Join(ctx, user, ask) })
	if txn == nil {
		return nil, rec, err
	}
	op := w.operation(ask.ID)
	if !c.holds(op) {
		w.claim(op)
		c.claims = append(c.claims, op)
	}
	return &gatedTxn{Transaction: txn, s: s, c: c, op: op, joined: true}, rec, err
}
