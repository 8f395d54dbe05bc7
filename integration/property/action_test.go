package property

import (
	"cmp"
	"context"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/oncelib/once"
)

// action is what can happen next. Where it does not apply it does nothing.
type action struct {
	name   string
	weight int
	do     func(*rapid.T)
}

func (w *world) actions() (all []action) {
	for _, a := range []action{
		{"call", 3, w.call},
		{"join", 1, w.join},
		{"go on", 18, w.goOn},
		{"tick", 4, w.ticks},
		{"the server notices", 1, w.notice},
		{"cancel", 1, w.cancel},
		{"crash", 1, w.crash},
		{"clock", 2, w.clock},
		{"lease", 2, w.lease},
	} {
		all = append(all, slices.Repeat([]action{a}, a.weight)...)
	}
	return all
}

// next does one of the actions.
func (w *world) next(t *rapid.T, from []action) {
	a := pick(t, "action", from)
	w.tellf("%d: %s", w.step, a.name)
	a.do(t)
}

// even draws a number below n, all of them as often: what rapid draws by itself
// prefers the first ones. It shrinks to 0.
func even(t *rapid.T, n int, what string) int {
	return rapid.Custom(func(t *rapid.T) int {
		x := 0
		for range 10 {
			x *= 2
			if rapid.Bool().Draw(t, "bit") {
				x++
			}
		}
		return x % n
	}).Draw(t, what)
}

func pick[T any](t *rapid.T, what string, from []T) T { return from[even(t, len(from), what)] }

// oneIn draws true once in n times.
func oneIn(t *rapid.T, n int, what string) bool { return even(t, n, what) == n-1 }

var printA, printB = once.FingerprintOf([]byte("a")), once.FingerprintOf([]byte("b"))

var prints = []once.Fingerprint{{}, printA, printA, printA, printB}

func (w *world) drawOperation(t *rapid.T, o *operation) once.Operation {
	return once.Operation{
		Scope: o.id.Scope, Key: o.id.Key,
		Fingerprint: pick(t, "fingerprint", prints),
		Wait:        pick(t, "wait", []time.Duration{0, 450 * time.Millisecond, 3050 * time.Millisecond}),
		Retain:      pick(t, "retain", []time.Duration{0, 2 * time.Hour}),
		Attempt:     once.Attempt{Number: pick(t, "attempt", []int{0, 0, 1, 2})},
	}
}

// call starts callers of one node who ask for the same.
func (w *world) call(t *rapid.T) {
	n, o := pick(t, "node", w.nodes), pick(t, "operation", w.ops)
	inside := 0
	for _, g := range w.groups {
		if g.node == n && !g.joins && g.ops[0].Key == o.id.Key {
			inside += g.left
		}
	}
	if inside > 1 { // the calls that wait already must be alike, see group
		return
	}
	g := &group{node: n, ops: []once.Operation{w.drawOperation(t, o)}, raw: oneIn(t, 2, "raw")}
	callers, deadline := 1+even(t, 3, "callers more"), time.Duration(0)
	if g.ops[0].Wait == 0 { // whether it asks as well, when its leader is told "in flight", is left to chance
		if callers = 1; inside > 0 && !w.executing(n, o) {
			return
		}
	}
	if callers == 1 && oneIn(t, 3, "deadline") {
		deadline = 970 * time.Millisecond
	}
	w.start(g, callers, deadline)
}

// executing reports whether a call of n has a transaction for o.
func (w *world) executing(n *node, o *operation) bool {
	return slices.ContainsFunc(w.waiting(), func(g *gate) bool {
		return g.c.node == n && !g.c.joins && g.c.ops[0].Key == o.id.Key && (g.at == atHandler || g.at == atCommit || g.at == atSwap)
	})
}

// join starts a caller with a transaction of its own.
func (w *world) join(t *rapid.T) {
	g := &group{node: pick(t, "node", w.nodes), joins: true}
	for range 1 + even(t, 2, "operations more") {
		g.ops = append(g.ops, w.drawOperation(t, pick(t, "operation", w.ops)))
	}
	w.start(g, 1, 0)
}

func (w *world) start(g *group, callers int, deadline time.Duration) (calls []*call) {
	w.seq++
	g.seq, g.callers, g.left = w.seq, callers, callers
	g.ctx, g.cancel = context.WithCancel(w.ctx)
	if deadline != 0 {
		g.ctx, g.cancel = context.WithTimeout(w.ctx, deadline)
	}
	w.groups = append(w.groups, g)
	alone := callers == 1 && !g.joins && !slices.ContainsFunc(w.inside(), func(c *call) bool { return c.node == g.node && c.ops[0].Key == g.ops[0].Key })
	for range callers {
		calls = append(calls, &call{group: g, began: w.step, alone: alone})
	}
	unlock := w.lock()
	w.calls = append(w.calls, calls...)
	unlock()
	for _, c := range calls {
		go c.live()
	}
	w.settles()
	return calls
}

// waiting returns the calls that wait for an order. There is one of a group at most.
func (w *world) waiting() []*gate {
	defer w.lock()()
	slices.SortFunc(w.gates, func(a, b *gate) int { return cmp.Compare(a.c.seq, b.c.seq) })
	return slices.Clone(w.gates)
}

// goOn lets one call go on.
func (w *world) goOn(t *rapid.T) {
	waiting := w.waiting()
	if len(waiting) == 0 {
		return
	}
	g := pick(t, "who", waiting)
	w.order(g, w.drawOrder(t, g))
}

func (w *world) drawOrder(t *rapid.T, g *gate) order {
	switch g.at {
	case atHandler:
		if g.c.joins {
			return order{ending: pick(t, "ending", joinedEndings)}
		}
		return order{ending: pick(t, "ending", endings)}
	case atEnd:
		return order{commit: oneIn(t, 2, "commit")}
	}
	of := 6
	if g.at == atCommit || g.at == atSwap { // rare, and where it matters
		of = 2
	}
	if !oneIn(t, of, "fault") {
		return order{}
	}
	return order{fault: pick(t, "which", faults[g.at]), rival: !oneIn(t, 4, "nobody")}
}

func (w *world) order(g *gate, o order) {
	unlock := w.lock()
	w.gates = slices.DeleteFunc(w.gates, func(other *gate) bool { return other == g })
	unlock()
	w.tellf("group %d at %s: %q %q", g.c.seq, g.at, o.fault, o.ending)
	g.open <- o
	w.settles()
}
