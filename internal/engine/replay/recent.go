package replay

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/oncelib/once/store"
)

// Recent remembers, by hash, operations that this process has lately seen done: a retry of one
// of them is read before it is claimed. It may forget, and two operations may share a hash:
// that costs a look-up and nothing else.
type Recent struct {
	seed  maphash.Seed
	slots [1 << 16]atomic.Uint32
}

// NewRecent returns a Recent that remembers nothing yet.
func NewRecent() *Recent { return &Recent{seed: maphash.MakeSeed()} }

// Mark is where an operation is remembered, and as what.
type Mark struct {
	slot *atomic.Uint32
	hash uint32 // never 0, which is an empty slot
}

// Mark returns the mark of id.
func (r *Recent) Mark(id store.ID) Mark {
	h := maphash.Comparable(r.seed, id)
	return Mark{&r.slots[h%uint64(len(r.slots))], uint32(h>>32) | 1}
}

// Set remembers the operation.
func (m Mark) Set() {
	if !m.IsSet() {
		m.slot.Store(m.hash)
	}
}

// IsSet reports whether the operation is remembered.
func (m Mark) IsSet() bool { return m.slot.Load() == m.hash }
