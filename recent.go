package once

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/oncelib/once/store"
)

// recent remembers, by hash, operations that this process has lately seen done. A
// retry of one of them is read, which takes no transaction, before it is claimed. It
// may forget, and two operations may share a hash: that costs time and nothing else.
type recent struct {
	seed  maphash.Seed
	slots [1 << 16]atomic.Uint32
}

func newRecent() *recent { return &recent{seed: maphash.MakeSeed()} }

// place is where an operation is remembered, and as what.
type place struct {
	slot *atomic.Uint32
	hash uint32 // never 0, which is an empty slot
}

func (r *recent) place(id store.ID) place {
	h := maphash.Comparable(r.seed, id)
	return place{&r.slots[h%uint64(len(r.slots))], uint32(h>>32) | 1}
}

func (p place) add() {
	if !p.has() {
		p.slot.Store(p.hash)
	}
}

func (p place) has() bool { return p.slot.Load() == p.hash }
