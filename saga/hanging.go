package saga

import (
	"context"
	"sync"
	"time"

	"github.com/oncelib/once/store"
)

// longestGrace is how long code of the user may still run after the end of its context, so that it can react to this end.
const longestGrace = time.Second

// hanging contains the sagas on this node whose code ignores the end of its context.
type hanging struct {
	mu   sync.Mutex
	list map[store.ID]int // the number of functions that hang: a flow, and its step
}

// begin notes that code of a saga hangs, until the code calls end. It reports whether this is the first code of the saga that hangs.
func (h *hanging) begin(id store.ID) (first bool, end func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.list == nil {
		h.list = map[store.ID]int{}
	}
	h.list[id]++
	return h.list[id] == 1, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.list[id]--; h.list[id] == 0 {
			delete(h.list, id)
		}
	}
}

func (h *hanging) has(id store.ID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.list[id] > 0
}

// protect runs code of the user as the function protect does. If the code does not return after the end of ctx, the saga hangs. The
// saga keeps its record and waits for the code, because a step that still runs may take effect.
func (r *run) protect(ctx context.Context, b begun, fn func() error) error {
	undo := r.saved.Turn != nil // read now, because fn may be a flow whose steps change the saved state
	ended := protect(fn)
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	grace := time.NewTimer(longestGrace)
	defer grace.Stop()
	select {
	case err := <-ended:
		return err
	case <-grace.C:
	}
	first, end := r.n.hanging.begin(r.id)
	defer end()
	if first {
		r.tell(ctx, Event{Type: EventHanging, Step: b.Name, StepKey: b.Key, Undo: undo, Err: errHangs})
	}
	return <-ended
}
