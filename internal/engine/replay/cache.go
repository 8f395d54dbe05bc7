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

// Cache keeps results that this process has committed itself: replaying them does not ask the
// database. A result that was only read must not be put into it: this process does not know
// whether a standby has it, nor when it expires. When it is full, it removes the result that was
// used least recently. A nil Cache is empty.
//
// Over HTTP a replay from it costs about a quarter of the CPU time of one from PostgreSQL, and a process
// serves 3.5 times as many: bench/RESULTS.md.
type Cache struct {
	life time.Duration
	size int64

	mu      sync.Mutex
	entries map[store.ID]*list.Element
	order   list.List // of *entry, the most recently used one first
	used    int64     // bytes
	drops   uint64

	hits, misses uint64 // of Get
}

// NewCache returns a cache that holds up to size bytes, each for life; nil if size is 0.
func NewCache(size int64, life time.Duration) *Cache {
	if size == 0 {
		return nil
	}
	return &Cache{life: life, size: size, entries: map[store.ID]*list.Element{}}
}

// minResults is how many results there is always room for: one takes at most an eighth of it.
const minResults = 8

// Ticket is drawn before a COMMIT is sent. With it the result of that COMMIT is put into the
// cache.
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

// Put keeps a result whose commit was answered. It ends long before its record expires: the
// retention of the record begins after the ticket was drawn, and half of it is left for the
// difference between the clocks of process and database. A ticket from before a Drop admits
// nothing, because the result may be the one that was dropped.
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
	if c.drops != t.drops {
		return
	}
	if old := c.entries[e.id]; old != nil {
		c.remove(old)
	}
	for back := c.order.Back(); back != nil; back = c.order.Back() {
		if c.used+e.size <= c.size && !entryOf(back).expired(e.drawn) {
			break
		}
		c.remove(back)
	}
	c.entries[e.id] = c.order.PushFront(e)
	c.used += e.size
}

// Get returns the record of id, as a replay needs it. Its bytes belong to the cache.
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

// Has reports whether Get would find id. It is not counted.
func (c *Cache) Has(id store.ID, now time.Time) bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.find(id, now) != nil
}

// find returns the entry of id and marks it as used, nil if the cache has no valid entry.
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

// Usage is the size of a cache, and how often Get has found a record.
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

// Drop removes the result of id, and voids all tickets that were drawn before.
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

// entry is a result.
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
	return element.Value.(*entry) //nolint:forcetypeassert // the list has nothing else
}

// entrySize is the memory of an entry besides its texts and bytes: itself, its place in
// the map, and the rounding of allocations.
const entrySize = 400

// newEntry copies everything that it keeps: a key may be a few bytes of a long header, and would keep all
// of the header in memory.
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
	e.fingerprint, e.result.Body = bytes[:at:at], bytes[at:len(bytes):len(bytes)]
	e.result.Header = make([]store.Field, len(rec.Result.Header))
	for i, f := range rec.Result.Header {
		e.result.Header[i] = store.Field{Name: keep(f.Name), Value: keep(f.Value)}
	}
	n += len(bytes) + 32*len(e.result.Header)
	e.size = entrySize + int64(n+n/8)
	return e
}

// expired asks both clocks: the monotonic clock stops while the machine is suspended, and
// the wall clock may be set.
func (e *entry) expired(now time.Time) bool {
	return now.Sub(e.drawn) >= e.life || now.Round(0).Sub(e.drawn.Round(0)) >= e.life
}

// Recent remembers, by hash, operations that this process has lately seen done: a retry of one
// of them is read before it is claimed. It may forget, and two operations may share a hash:
// that costs a look-up and nothing else.
type Recent struct {
	seed  maphash.Seed
	slots [1 << 16]atomic.Uint32
}

// NewRecent returns a Recent that remembers nothing yet.
func NewRecent() *Recent { return &Recent{seed: maphash.MakeSeed()} }

// Mark is the place and the hash by which an operation is remembered.
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
