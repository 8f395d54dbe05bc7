package held

import (
	"context"
	"sync"
	"time"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// Heart renews the leases of all owners of a process, many in one statement, on a connection of its own.
type Heart struct {
	ops         store.Operations
	renewer     store.Renewer
	ttl         time.Duration
	maxDuration time.Duration

	mu      sync.Mutex
	beating map[*Owner]struct{}
	runs    bool // the goroutine is there
}

// NewHeart returns one for the records of ops, which it renews by renewer every third of ttl, for no longer than maxDuration.
func NewHeart(ops store.Operations, renewer store.Renewer, ttl, maxDuration time.Duration) *Heart {
	return &Heart{ops: ops, renewer: renewer, ttl: ttl, maxDuration: maxDuration, beating: map[*Owner]struct{}{}}
}

func (h *Heart) add(o *Owner) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.beating[o] = struct{}{}
	if !h.runs {
		h.runs = true
		go h.run()
	}
}

func (h *Heart) remove(o *Owner) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.beating, o)
}

// run beats until there is nothing to renew for a while.
func (h *Heart) run() {
	renewer, release := h.reserve()
	defer release()
	every := time.NewTicker(h.ttl / 3)
	defer every.Stop()
	for range every.C {
		owners, ends := h.list()
		if ends {
			return
		}
		h.beat(renewer, owners)
	}
}

// reserve returns a renewer with a connection of its own, if the store can: an exhausted pool costs no lease.
func (h *Heart) reserve() (store.Renewer, func()) {
	if s, ok := store.As[sqlplane.Reserver](h.ops); ok {
		if own, release, err := s.Reserve(); err == nil {
			if renewer, ok := store.As[store.Renewer](own); ok {
				return renewer, release
			}
			release()
		}
	}
	return h.renewer, func() {}
}

// list returns the owners; ends says that the goroutine ends because no owner is left.
func (h *Heart) list() (owners []*Owner, ends bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for o := range h.beating {
		owners = append(owners, o)
	}
	if len(owners) == 0 {
		// Under the lock of add: an owner that comes from now on starts another run.
		h.runs = false
	}
	return owners, len(owners) == 0
}

// owned names an owner. Two engines may have had the same operation, one after the other, and operations that were taken in one statement have the
// same nonce.
type owned struct {
	store.ID

	nonce string
}

func ownedBy(h store.Hold) owned { return owned{h.ID, string(h.Nonce)} }

// beat renews the leases of owners, and ends the owners whose leases are lost.
func (h *Heart) beat(renewer store.Renewer, owners []*Owner) {
	held := map[owned]*Owner{}
	var quiet, busy []store.Hold
	for _, o := range owners {
		hold, state, tooLong := o.hold(h.maxDuration)
		if tooLong {
			o.Lose(false)
		}
		if tooLong || state == ownerLocked { // the renewal of all would wait
			continue
		}
		held[ownedBy(hold)] = o
		if state == ownerWriting {
			busy = append(busy, hold)
			continue
		}
		quiet = append(quiet, hold)
	}
	// No longer than until the next beat.
	ctx, cancel := context.WithTimeout(context.Background(), h.ttl/3)
	defer cancel()
	// A write may have locked its record, and may then wait for a row of the handler's. Its renewal waits with it, so it comes last.
	for _, list := range [][]store.Hold{quiet, busy} {
		if len(list) > 0 {
			h.renew(ctx, renewer, list, held)
		}
	}
}

// renew renews the leases of list, whose owners are in held.
func (h *Heart) renew(ctx context.Context, renewer store.Renewer, list []store.Hold, held map[owned]*Owner) {
	sent := time.Now()
	renewed, err := renewer.Renew(ctx, list, h.ttl)
	for _, hold := range renewed {
		held[ownedBy(hold)].beaten(sent)
		delete(held, ownedBy(hold))
	}
	for _, hold := range list {
		if o := held[ownedBy(hold)]; o != nil && o.missed(hold, err != nil, h.ttl) {
			o.Lose(err == nil)
		}
	}
}

// ownerState says what an owner does with its record.
type ownerState uint8

const (
	ownerQuiet   ownerState = iota
	ownerWriting            // a write is under way, which may have locked the record
	ownerLocked             // a transaction has locked the record
)

// hold is the claim to renew. tooLong says that it has been held for longer than maxDuration.
func (o *Owner) hold(maxDuration time.Duration) (h store.Hold, state ownerState, tooLong bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.locked:
		state = ownerLocked
	case o.writing > 0:
		state = ownerWriting
	}
	return store.Hold{ID: o.ID, Fence: o.fence, Nonce: o.Nonce}, state, time.Since(o.since) > maxDuration
}

func (o *Owner) beaten(sent time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if sent.After(o.renewed) {
		o.renewed = sent
	}
}

// missed reports whether a claim that was not renewed is lost. A write of this owner may have raised the fence meanwhile, and
// be on its way now. If the store has not answered, the lease lasts until its time is over.
func (o *Owner) missed(h store.Hold, unanswered bool, ttl time.Duration) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.locked {
		return false
	}
	if unanswered {
		// The lease may have been renewed or not: only its own time ends it.
		return time.Since(o.renewed) > ttl
	}
	// The store does not have it under this fence. A write of this owner may have raised the fence meanwhile.
	return o.fence == h.Fence && o.writing == 0 && !o.closed
}
