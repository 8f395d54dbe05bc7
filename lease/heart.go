package lease

import (
	"context"
	"sync"
	"time"

	"github.com/oncelib/once/store"
)

// heart renews the leases of all runs of a process, many in one statement, on a connection of its own.
type heart struct {
	ops         store.Operations
	renewer     store.Renewer
	ttl         time.Duration
	maxDuration time.Duration

	mu      sync.Mutex
	beating map[*Run]struct{}
	runs    bool // the goroutine is there
}

func (h *heart) add(r *Run) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.beating[r] = struct{}{}
	if !h.runs {
		h.runs = true
		go h.run()
	}
}

func (h *heart) remove(r *Run) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.beating, r)
}

// run beats until there is nothing to renew for a while.
func (h *heart) run() {
	renewer, release := h.reserve()
	defer release()
	every := time.NewTicker(h.ttl / 3)
	defer every.Stop()
	for range every.C {
		runs, ends := h.list()
		if ends {
			return
		}
		h.beat(renewer, runs)
	}
}

// reserve returns a renewer with a connection of its own, if the store can: an exhausted pool costs no lease.
func (h *heart) reserve() (store.Renewer, func()) {
	if s, ok := store.As[store.Reserver](h.ops); ok {
		if own, release, err := s.Reserve(); err == nil {
			if renewer, ok := store.As[store.Renewer](own); ok {
				return renewer, release
			}
			release()
		}
	}
	return h.renewer, func() {}
}

// list returns the runs, or says that the goroutine ends because there are none.
func (h *heart) list() (runs []*Run, ends bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for r := range h.beating {
		runs = append(runs, r)
	}
	if len(runs) == 0 {
		h.runs = false
	}
	return runs, len(runs) == 0
}

// beat renews the leases of runs, and ends those that are lost.
func (h *heart) beat(renewer store.Renewer, runs []*Run) {
	sent := time.Now()
	held := map[string]*Run{} // by nonce: two engines may have had the same operation, one after the other
	var list []store.Hold
	for _, r := range runs {
		hold, locked, tooLong := r.hold(h.maxDuration)
		if tooLong {
			r.lose(false)
		}
		if tooLong || locked { // the renewal of all would wait
			continue
		}
		held[string(hold.Nonce)] = r
		list = append(list, hold)
	}
	ctx, cancel := context.WithTimeout(context.Background(), h.ttl/3)
	defer cancel()
	renewed, err := renewer.Renew(ctx, list, h.ttl)
	for _, hold := range renewed {
		held[string(hold.Nonce)].beaten(sent)
		delete(held, string(hold.Nonce))
	}
	for _, hold := range list {
		if r := held[string(hold.Nonce)]; r != nil && r.missed(hold, err != nil, h.ttl) {
			r.lose(err == nil)
		}
	}
}

// hold is the claim to renew. locked says that its own transaction keeps all others from it, and tooLong that it has been held for longer
// than maxDuration.
func (r *Run) hold(maxDuration time.Duration) (h store.Hold, locked, tooLong bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return store.Hold{ID: r.id, Fence: r.fence, Nonce: r.nonce}, r.locked, time.Since(r.since) > maxDuration
}

func (r *Run) beaten(sent time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if sent.After(r.renewed) {
		r.renewed = sent
	}
}

// missed reports whether a claim that was not renewed is lost. A write of this run may have raised the fence meanwhile, and
// be on its way now. If the store has not answered, the lease lasts until its time is over.
func (r *Run) missed(h store.Hold, unanswered bool, ttl time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.locked {
		return false
	}
	if unanswered {
		return time.Since(r.renewed) > ttl
	}
	return r.fence == h.Fence && r.writing == 0 && !r.closed
}
