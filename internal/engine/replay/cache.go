package replay

import (
	"container/list"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncelib/once/store"
)

// Cache contains results that this process has committed itself, so that a replay does not ask the database. A result that was
// only read must not be added: this process does not know whether a standby has it, nor when it expires. A full cache
// removes the result that was not used for the longest time. A nil Cache is empty.
//
// Over HTTP, a replay from the cache costs about a quarter of the CPU time of a replay from PostgreSQL. A process serves 3.5
// times as many: bench/RESULTS.md.
type Cache struct {
	life time.Duration
	size int64

	mu      sync.Mutex
	entries map[store.ID]*list.Element
	order   list.List // of *entry; the most recently used entry is first
	used    int64     // bytes
	// drops counts the calls of Drop.
	drops uint64

	hits, misses uint64 // of Get
}

// NewCache returns a cache of at most size bytes, which keeps each result for life. It returns nil if size is 0.
func NewCache(size int64, life time.Duration) *Cache {
	if size == 0 {
		return nil
	}
	return &Cache{life: life, size: size, entries: map[store.ID]*list.Element{}}
}

// minResults is the number of results for which the cache always has room: a result may take at most an eighth of it.
const minResults = 8

// Ticket is made before a COMMIT is sent. It is needed to put the result of this COMMIT into the cache.
type Ticket struct {
	drawn time.Time
	drops uint64
}

// Ticket returns a ticket for the COMMIT of any operation.
func (c *Cache) Ticket() Ticket {
	if c == nil {
		return Ticket{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return Ticket{time.Now(), c.drops}
}

// Put adds a result after its COMMIT was answered. The result leaves the cache long before its record expires: the retention
// of the record begins after the ticket was made, and half of the retention is left for the difference between the clocks of
// the process and of the database. With a ticket from before a Drop, Put adds nothing, because the result may be the dropped
// one.
func (c *Cache) Put(id store.ID, rec store.Record, retain time.Duration, t Ticket) {
	if c == nil || int64(len(rec.Result.Body)) > c.size/minResults {
		return
	}
	e := newEntry(id, rec)
	e.drawn, e.life = t.drawn, min(c.life, retain/2)
	if e.size > c.size/minResults {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// The dropped result may be this one, and would come back.
	if c.drops != t.drops {
		return
	}
	if old := c.entries[e.id]; old != nil {
		c.remove(old)
	}
	// The least recently used results make room. An expired one is removed in any case.
	for back := c.order.Back(); back != nil; back = c.order.Back() {
		if c.used+e.size <= c.size && !entryOf(back).expired(e.drawn) {
			break
		}
		c.remove(back)
	}
	c.entries[e.id] = c.order.PushFront(e)
	c.used += e.size
}

// Get returns the fields of the record of id that a replay needs. The bytes belong to the cache and must not be changed.
func (c *Cache) Get(id store.ID, now time.Time) (rec store.Record, ok bool) {
	if c == nil {
		return rec, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.find(id, now)
	if e == nil {
		c.misses++
		return rec, false
	}
	c.hits++
	return store.Record{State: store.StateDone, Fence: 1, Fingerprint: e.fingerprint, Result: e.result, Trace: e.trace}, true
}

// Has reports whether Get would find id. Has does not change the counters.
func (c *Cache) Has(id store.ID, now time.Time) bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.find(id, now) != nil
}

// find returns the entry of id and marks it as used. It returns nil if the cache has no valid entry.
func (c *Cache) find(id store.ID, now time.Time) *entry {
	element := c.entries[id]
	if element == nil {
		return nil
	}
	e := entryOf(element)
	if e.expired(now) {
		return nil
	}
	c.order.MoveToFront(element)
	return e
}

// Usage is the size of a cache, with the numbers of successful and unsuccessful calls of Get.
type Usage struct {
	Hits, Misses uint64
	Bytes        int64
}

// Usage returns the usage of c.
func (c *Cache) Usage() Usage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Usage{c.hits, c.misses, c.used}
}

// Drop removes the result of id, and makes all earlier tickets invalid.
func (c *Cache) Drop(id store.ID) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drops++
	if element := c.entries[id]; element != nil {
		c.remove(element)
	}
}

func (c *Cache) remove(element *list.Element) {
	c.order.Remove(element)
	e := entryOf(element)
	delete(c.entries, e.id)
	c.used -= e.size
}

// entry is a result in the cache.
type entry struct {
	id          store.ID
	fingerprint []byte
	result      store.Result
	trace       string
	size        int64
	drawn       time.Time
	life        time.Duration
}

func entryOf(element *list.Element) *entry {
	return element.Value.(*entry) //nolint:forcetypeassert // the list contains only entries
}

// entrySize is the memory of an entry in addition to its texts and bytes: the entry itself, its place in the map, and the
// rounding of allocations.
const entrySize = 400

// newEntry copies all texts and bytes. A key may be a small part of a long header, and would keep the whole header in memory.
func newEntry(id store.ID, rec store.Record) *entry {
	var text strings.Builder
	n := len(id.Scope) + len(id.Key) + len(rec.Trace)
	for _, f := range rec.Result.Header {
		n += len(f.Name) + len(f.Value)
	}
	text.Grow(n)
	keep := func(s string) string {
		from := text.Len()
		text.WriteString(s)
		return text.String()[from:]
	}
	e := &entry{id: store.ID{Scope: keep(id.Scope), Key: keep(id.Key)}, result: rec.Result, trace: keep(rec.Trace)}
	bytes := slices.Concat(rec.Fingerprint, rec.Result.Body)
	at := len(rec.Fingerprint)
	// The capacities end with the parts, so that an append cannot change the entry.
	e.fingerprint, e.result.Body = bytes[:at:at], bytes[at:len(bytes):len(bytes)]
	e.result.Header = make([]store.Field, len(rec.Result.Header))
	for i, f := range rec.Result.Header {
		e.result.Header[i] = store.Field{Name: keep(f.Name), Value: keep(f.Value)}
	}
	n += len(bytes) + 32*len(e.result.Header)
	// An eighth more, because allocations are rounded up.
	e.size = entrySize + int64(n+n/8)
	return e
}

// expired checks both clocks: the monotonic clock stops while the machine sleeps, and the wall clock may be set.
func (e *entry) expired(now time.Time) bool {
	return now.Sub(e.drawn) >= e.life || now.Round(0).Sub(e.drawn.Round(0)) >= e.life
}

// Recent remembers, by hash, operations that this process has recently seen done. A retry of such an operation is read
// before it is claimed. Recent may forget operations, and two operations may share a hash: this costs a look-up, and nothing
// else.
type Recent struct {
	seed  maphash.Seed
	slots [1 << 16]atomic.Uint32
}

// NewRecent returns a Recent that remembers nothing yet.
func NewRecent() *Recent { return &Recent{seed: maphash.MakeSeed()} }

// Mark is the slot and the hash of an operation in a Recent.
type Mark struct {
	slot *atomic.Uint32
	hash uint32 // never 0, because 0 means an empty slot
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
