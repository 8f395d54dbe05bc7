package held

import (
	"context"
	"sync"
	"time"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// Heart renews the leases of all owners of a process. It renews many leases in one statement, on a separate connection.
type Heart struct {
	ops         store.Operations
	renewer     store.Renewer
	ttl         time.Duration
	maxDuration time.Duration

	mu      sync.Mutex
	beating map[*Owner]struct{}
	runs    bool // the goroutine of run exists
}

// NewHeart returns a Heart for the records of ops. It renews the leases with renewer, every third of ttl, for at most
// maxDuration.
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

// run renews leases until no owner is left.
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

// reserve returns a renewer with a separate connection, if the store supports this. So an exhausted pool costs no lease.
func (h *Heart) reserve() (store.Renewer, func()) {
	if s, ok := store.As[sqlplane.Reserver](h.ops); ok {
		if own, release, err := s.Reserve(); err == nil {
			if renewer, ok := store.As[store.Renewer](own); ok {
				return renewer, release
			}
			release()
		}
	}
	// The renewals then use the pool like all other statements.
	return h.renewer, func() {}
}

// list returns the owners. ends is true if no owner is left, so that the goroutine must end.
func (h *Heart) list() (owners []*Owner, ends bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for o := range h.beating {
		owners = append(owners, o)
	}
	if len(owners) == 0 {
		// add uses the same lock, so a later owner starts a new goroutine.
		h.runs = false
	}
	return owners, len(owners) == 0
}

// owned identifies an owner. The nonce alone is not enough, because operations that were taken in one statement have the same
// nonce. The ID alone is not enough, because two engines may have had the same operation in turn.
type owned struct {
	store.ID

	nonce string
}

func ownedBy(h store.Hold) owned { return owned{h.ID, string(h.Nonce)} }

// beat renews the leases of owners. It ends the owners whose leases are lost.
func (h *Heart) beat(renewer store.Renewer, owners []*Owner) {
	held := map[owned]*Owner{}
	var quiet, busy []store.Hold
	for _, o := range owners {
		hold, state, tooLong := o.hold(h.maxDuration)
		if tooLong {
			o.Lose(false)
		}
		if tooLong || state == ownerLocked { // its renewal would make all renewals wait
			continue
		}
		held[ownedBy(hold)] = o
		if state == ownerWriting {
			busy = append(busy, hold)
			continue
		}
		quiet = append(quiet, hold)
	}
	// The renewal may take until the next beat.
	ctx, cancel := context.WithTimeout(context.Background(), h.ttl/3)
	defer cancel()
	// A write may have locked its record, and may wait for a row of the handler. The renewal of this record waits with the write,
	// so it comes last.
	for _, list := range [][]store.Hold{quiet, busy} {
		if len(list) > 0 {
			h.renew(ctx, renewer, list, held)
		}
	}
}

// renew renews the leases of list. held contains their owners.
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

// ownerState says what an owner does with its record now.
type ownerState uint8

const (
	ownerQuiet   ownerState = iota
	ownerWriting            // a write is running, which may have locked the record
	ownerLocked             // a transaction of the owner has locked the record
)

// hold returns the lease to renew. tooLong reports whether the owner has held it for longer than maxDuration.
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

// beaten records a successful renewal that was sent at a time.
func (o *Owner) beaten(sent time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if sent.After(o.renewed) {
		o.renewed = sent
	}
}

// missed reports whether a lease that was not renewed is lost. If the store has not answered, the lease lasts until its time
// has ended.
func (o *Owner) missed(h store.Hold, unanswered bool, ttl time.Duration) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.locked {
		return false
	}
	if unanswered {
		// The lease may have been renewed or not, so only its time ends it.
		return time.Since(o.renewed) > ttl
	}
	// The store has no lease with this fence. A write of this owner may have increased the fence meanwhile.
	return o.fence == h.Fence && o.writing == 0 && !o.closed
}
