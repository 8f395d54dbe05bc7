package property

import (
	"slices"
	"time"

	"pgregory.net/rapid"
)

// notice lets the server find out about a connection that is gone.
func (w *world) notice(t *rapid.T) {
	if len(w.ghosts) == 0 {
		return
	}
	i := even(t, len(w.ghosts), "ghost")
	w.noticed(i, w.ghosts[i].change != nil && oneIn(t, 2, "applied"))
}

// noticed ends ghost i, and applies what was on its way, or not.
func (w *world) noticed(i int, apply bool) {
	g := w.ghosts[i]
	w.ghosts = slices.Delete(w.ghosts, i, i+1)
	switch {
	case g.caller != nil:
		g.caller.Rollback()
	case g.swap && apply && g.holder != nil:
		g.holder.sent(w, g.change)
	case g.swap && apply:
		_, _ = w.db.Swap(w.ctx, *g.change) // refused, if there is another record by now
	case g.swap:
	case apply:
		_ = g.txn.Commit(w.ctx, *g.change)
	default:
		_ = g.txn.Rollback(w.ctx)
	}
	for _, o := range g.frees {
		w.free(o)
	}
}

// cancel ends the context of a caller who is alone: of several, it would be left to
// chance who sees first that it is over.
func (w *world) cancel(t *rapid.T) {
	alone := slices.DeleteFunc(slices.Clone(w.groups), func(g *group) bool { return g.callers > 1 || g.ctx.Err() != nil })
	if len(alone) == 0 {
		return
	}
	pick(t, "group", alone).cancel()
}

// crash ends a node. Its open transactions are ghosts; another one takes its place.
func (w *world) crash(t *rapid.T) {
	if !oneIn(t, 4, "really") { // a new engine is by far what takes longest here
		return
	}
	i := even(t, len(w.nodes), "node")
	n := w.nodes[i]
	unlock := w.lock()
	n.dead = true
	unlock()
	w.nodes[i] = w.newNode(n.synced)
	for _, g := range w.waiting() {
		if g.c.node == n {
			w.meet(metCrash)
			w.order(g, order{ending: failing})
		}
	}
}

// clock moves the store's clock. No record may expire while a commit is on its way. The
// retention of a joined one begins with the Join, so that the model is simpler if no time
// passes until its commit.
func (w *world) clock(t *rapid.T) {
	d := pick(t, "by", []time.Duration{time.Second, 31 * time.Second, 61 * time.Second, -time.Hour, 10 * time.Minute, 2 * time.Hour, retention})
	if d > time.Second && slices.ContainsFunc(w.ghosts, func(g *ghost) bool { return g.change != nil }) {
		return
	}
	for _, c := range w.inside() {
		if c.joins {
			return
		}
	}
	if d < 0 {
		w.meet(metBackwards)
	}
	w.now += d
	w.db.Advance(d)
}
