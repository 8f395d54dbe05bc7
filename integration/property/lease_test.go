package property

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"time"

	"pgregory.net/rapid"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/storetest"
)

const lease = time.Minute

// holder works, or believes that it works, on a leased operation.
type holder struct {
	o     *operation
	fence int64
	claim []byte
	point int
	call  bool // an external call was begun
}

// lease does something to a leased operation, in one Swap, as its holder, as an
// earlier holder, or as a process that finds it.
func (w *world) lease(t *rapid.T) {
	o := pick(t, "operation", w.ops)
	of := slices.DeleteFunc(slices.Clone(w.holders), func(h *holder) bool { return h.o != o })
	if o.rec.State == store.StateAbsent && !oneIn(t, 3, "old holder") || len(of) == 0 {
		w.send(t, w.claims(o), &store.Change{ID: o.id, Next: store.Record{State: store.StateRunning}})
		return
	}
	if oneIn(t, 3, "found") {
		w.find(t, o)
		return
	}
	h := pick(t, "holder", of)
	ch := &store.Change{ID: o.id, Expect: store.Expect{Fence: h.fence}, Next: h.record()}
	switch what := pick(t, "what", []string{"heartbeat", "checkpoint", "call", "finish", "release", "mark unknown"}); what {
	case "checkpoint":
		h.point, h.call = h.point+1, false
		ch.Next = h.record()
	case "call":
		h.call = true
		ch.Next = h.record()
	case "finish":
		ch = done(w.leased(o, nil), ch.Expect, string(h.claim))
	case "release":
		ch.Next = store.Record{}
	case "mark unknown":
		ch.Next.State = store.StateUnknown
	}
	w.send(t, h, ch)
}

// claims makes a new holder, whose fence is higher than all before. A store keeps no
// fence of what was released or has expired, and takes the one that it is given: who
// began at 1 again would let in a holder from before.
func (w *world) claims(o *operation) *holder {
	o.fence++
	h := &holder{o: o, fence: o.fence, claim: fmt.Appendf(nil, "holder%10d", o.fence)}
	w.holders = append(w.holders, h)
	return h
}

func (h *holder) record() store.Record {
	return store.Record{
		State: store.StateRunning, Fence: h.fence, Nonce: h.claim, CallStarted: h.call,
		RecoveryPoint: strconv.Itoa(h.point), Data: []byte("saved at " + strconv.Itoa(h.point)),
	}
}

// find is what another node does with an operation whose holder may be dead: take it
// over, or, if a call was begun, mark it; or resolve what is marked.
func (w *world) find(t *rapid.T, o *operation) {
	expect := store.Expect{Fence: o.rec.Fence, LeaseExpired: o.rec.State == store.StateRunning}
	switch {
	case o.rec.State == store.StateUnknown:
		w.send(t, nil, done(w.leased(o, nil), expect, "resolved, 16 byt"))
	case o.rec.State == store.StateRunning && o.rec.CallStarted:
		next := o.rec
		next.State = store.StateUnknown
		w.send(t, nil, &store.Change{ID: o.id, Expect: expect, Next: next})
	case o.rec.State == store.StateRunning:
		h := w.claims(o)
		h.point, _ = strconv.Atoi(o.rec.RecoveryPoint)
		w.send(t, h, &store.Change{ID: o.id, Expect: expect, Next: h.record()})
	}
}

// send sends a Swap through a store that may fail.
func (w *world) send(t *rapid.T, h *holder, ch *store.Change) {
	if h == nil {
		h = &holder{o: w.operation(ch.ID)}
	} else if ch.Next.State == store.StateRunning && ch.Next.Fence == 0 {
		ch.Next = h.record()
	}
	ch.Lease = lease
	f := none
	if oneIn(t, 4, "fault") {
		f = pick(t, "which", faults[atSwap])
	}
	switch p := storetest.Point(f); {
	case f == swapLate:
		w.ghosts = append(w.ghosts, &ghost{swap: true, change: ch, holder: h})
	case p == storetest.SwapLostApplied:
		h.sent(w, ch)
	case f == none:
		h.sent(w, ch)
	default: // not applied
		faulty := storetest.NewFaults[tx](w.db)
		faulty.Arm(storetest.Plan{At: []storetest.Point{p}})
		if _, err := faulty.Swap(w.ctx, *ch); err == nil {
			w.t.Fatalf("%s: %q was applied", h.o.id.Key, f)
		}
	}
}

// sent compares what a Swap does with the truth table.
func (h *holder) sent(w *world, ch *store.Change) {
	o, before := h.o, h.o.rec
	applies := o.allows(ch, w.now)
	rec, err := w.db.Swap(w.ctx, *ch)
	if (err == nil) != applies || err != nil && store.KindOf(err) != store.KindTaken {
		w.t.Fatalf("%s: Swap %+v of %+v: %v, should be applied: %t", o.id.Key, ch, before, err, applies)
	}
	if !applies {
		if o.rec.State != store.StateAbsent && (rec.State != o.rec.State || rec.Fence != o.rec.Fence || !bytes.Equal(rec.Nonce, o.rec.Nonce)) {
			w.t.Fatalf("%s: in the way is said to be %+v, not %+v", o.id.Key, rec, o.rec)
		}
		if ch.Expect.Fence != 0 && ch.Expect.Fence < before.Fence && before.State == store.StateRunning {
			w.meet(metStaleHolder)
		}
		return
	}
	r := w.runs[nameIn(ch.Next.Result)]
	o.applied(w, ch, r)
	switch {
	case r != nil:
		r.recorded = true
		if before.State == store.StateUnknown {
			w.meet(metResolved)
		}
	case ch.Next.State == store.StateAbsent:
		w.meet(metReleased)
	case ch.Next.State == store.StateUnknown:
		w.meet(metMarkedUnknown)
	case ch.Expect.LeaseExpired:
		w.meet(metTakeover)
	}
	if before.State == store.StateRunning && ch.Next.State != store.StateAbsent && ch.Next.Fence < before.Fence {
		w.t.Fatalf("%s: the fence went from %d to %d", o.id.Key, before.Fence, ch.Next.Fence)
	}
}
