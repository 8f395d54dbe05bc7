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
	slots [1 << 16]atomic.Uint64
}

func newRecent() *recent { return &recent{seed: maphash.MakeSeed()} }

func (r *recent) slot(id store.ID) (*atomic.Uint64, uint64) {
	h := maphash.Comparable(r.seed, id)
	return &r.slots[h%uint64(len(r.slots))], h | 1 // never 0, which is an empty slot
}

func (r *recent) add(id store.ID) {
	slot, h := r.slot(id)
	if slot.Load() != h {
		slot.Store(h)
	}
}

func (r *recent) has(id store.ID) bool {
	slot, h := r.slot(id)
	return slot.Load() == h
}
