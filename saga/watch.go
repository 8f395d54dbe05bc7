package saga

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/upkeep"
)

// fewEvery is the part of Config.Every for which free places wait for further ones, so that one statement takes many sagas.
const fewEvery = 8

// watch finds sagas for a runner, and starts them. Only the goroutine of Run gives places to sagas.
type watch[TX any] struct {
	r     *Runner[TX]
	ended chan struct{}
	left  map[store.ID]bool // sagas that were due in the last look and were not taken
	dead  []listed          // sagas of dead nodes that were listed and not started
	looks int

	mu      sync.Mutex
	running map[store.ID]place // the sagas that have a place
}

// place is a place of a node, and the saga that has it.
type place struct {
	listed

	dead bool // the saga was found in the list of sagas of dead nodes
}

// used returns how many places these sagas use. Sagas that hang give up to half of all places back, so that others can run: the
// limit bounds their goroutines.
func (w *watch[TX]) used(these func(place) bool) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	hanging := 0
	for id, p := range w.running {
		if !these(p) {
			continue
		}
		n++
		if w.r.hanging.has(id) {
			hanging++
		}
	}
	return n - min(hanging, (w.r.cfg.Concurrency+1)/2)
}

// free returns how many places are free.
func (w *watch[TX]) free() int {
	return max(0, w.r.cfg.Concurrency-w.used(func(place) bool { return true }))
}

// reserve gives a place to a saga, and reports whether it has done this. A quarter of the places is kept free of one definition
// and of one tenant: otherwise calls that hang would take all places, and a saga that is due later would wait for their timeouts.
func (w *watch[TX]) reserve(s listed, dead bool) bool {
	most := w.r.cfg.Concurrency - w.r.cfg.Concurrency/4
	switch {
	case w.runs(s.ID), w.free() == 0:
		return false
	case len(w.r.defs) > 1 && w.used(func(p place) bool { return p.name == s.name }) >= most:
		return false
	case idOf(s.ID).Tenant != "" && w.used(func(p place) bool { return p.Scope == s.Scope }) >= most:
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running[s.ID] = place{s, dead}
	return true
}

// runs reports whether a saga has a place.
func (w *watch[TX]) runs(id store.ID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, runs := w.running[id]
	return runs
}

// release makes the place of a saga free.
func (w *watch[TX]) release(id store.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.running, id)
}

// gather waits until half of the places are free, or until the time has passed.
func (w *watch[TX]) gather(ctx context.Context, over <-chan time.Time) {
	for w.free() < (w.r.cfg.Concurrency+1)/2 {
		select {
		case <-w.ended:
		case <-over:
			return
		case <-ctx.Done():
			return
		}
	}
}

// look starts sagas of dead nodes and due sagas. It reports whether there may be more of them than this node has places for. It
// never waits for a place, because it would find no other saga meanwhile.
func (w *watch[TX]) look(ctx context.Context, lists bool) (full bool, err error) {
	// A saga of a dead node has no row of due. It is found by reading all running sagas, which costs more.
	if lists {
		if err := w.list(ctx); err != nil {
			return false, err
		}
	}
	w.revive(ctx)
	free := w.free()
	// A look would only find sagas that this node has no place for.
	if free == 0 {
		return true, nil
	}
	list, err := w.r.due.look(ctx, w.r.cfg.Concurrency, free) // more than free, because some of them may be running on this node
	if err == nil {
		list, err = w.apart(ctx, list)
	}
	if err != nil {
		return false, err
	}
	var ids []store.ID
	for _, s := range list {
		// The first sagas of the list were chosen in turn. A place that has become free meanwhile is for the next look.
		if len(ids) < free && w.reserve(s, false) {
			ids = append(ids, s.ID)
		}
	}
	return len(list) >= free || len(w.dead) > 0, w.take(ctx, ids)
}

// list reads the sagas of dead nodes. In the list, the sagas of each tenant and definition have their turn.
func (w *watch[TX]) list(ctx context.Context) error {
	w.dead = nil
	err := eachIdle(ctx, w.r.ops, store.StateRunning, func(e upkeep.Entry) (bool, error) {
		if w.r.defs[e.Name] != nil {
			w.dead = append(w.dead, listed{e.ID, e.Name})
		}
		return ctx.Err() == nil, nil
	})
	rand.Shuffle(len(w.dead), func(i, j int) { w.dead[i], w.dead[j] = w.dead[j], w.dead[i] }) // other nodes see the same list, and should not compete for the same sagas
	turns, before := map[store.ID]int{}, map[[2]string]int{}
	for _, s := range w.dead {
		of := [2]string{s.Scope, s.name}
		before[of]++
		turns[s.ID] = before[of]
	}
	slices.SortStableFunc(w.dead, func(a, b listed) int { return turns[a.ID] - turns[b.ID] })
	return err
}

// revive starts sagas of dead nodes. They get half of the places, so that the other half is left for sagas that are due. If the
// number of places is odd, the place in the middle is for the two kinds in turn.
func (w *watch[TX]) revive(ctx context.Context) {
	w.looks++
	more := (w.r.cfg.Concurrency+w.looks%2)/2 - w.used(func(p place) bool { return p.dead })
	w.dead = slices.DeleteFunc(w.dead, func(s listed) bool {
		if more <= 0 || !w.reserve(s, true) {
			return false
		}
		more--
		w.start(ctx, s.ID, func(ctx context.Context) error { return w.r.resume(ctx, s.ID, false) })
		return true
	})
}

// apart removes sagas that already run on this node and were woken meanwhile. It makes them due a little later, so that they do
// not delay other sagas.
func (w *watch[TX]) apart(ctx context.Context, list []listed) (others []listed, err error) {
	for _, s := range list {
		if !w.runs(s.ID) {
			others = append(others, s)
		} else if err := w.r.due.push(ctx, s.ID); err != nil {
			return nil, err //nolint:wrapcheck // it is of the store
		}
	}
	return others, nil
}

// take takes due sagas that have a place. A saga that is not taken was probably taken by another node. If it is still due in the
// next look, it is handled separately: it was woken while a node runs it, or it has ended.
func (w *watch[TX]) take(ctx context.Context, ids []store.ID) error {
	rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] }) // other nodes see the same list, and should not compete for the same sagas
	runs, can, err := w.r.takeMany(ctx, ids)
	before := w.left
	w.left = map[store.ID]bool{}
	for _, id := range ids {
		switch {
		case runs[id] != nil:
			w.start(ctx, id, runs[id])
		case err != nil:
			w.release(id)
		case !can || before[id]:
			w.left[id] = true
			w.start(ctx, id, func(ctx context.Context) error { return w.r.resume(ctx, id, true) })
		default:
			w.left[id] = true
			w.release(id)
		}
	}
	return err
}

// start runs a saga that has a place, in a separate goroutine.
func (w *watch[TX]) start(ctx context.Context, id store.ID, run func(context.Context) error) {
	w.r.work(func() {
		defer func() {
			w.release(id)
			// One element is enough to wake Run.
			select {
			case w.ended <- struct{}{}:
			default:
			}
		}()
		// The caller's context must not end a saga in the middle of a step: Run stops sagas between steps.
		own := context.WithoutCancel(ctx)
		if err := run(own); err != nil {
			w.r.tell(own, Event{Type: EventInterrupted, ID: idOf(id), Err: err})
		}
	})
}
