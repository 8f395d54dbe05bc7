// Package replay remembers which operations this process has seen done, so that a retry of one
// takes no transaction: the results that it has committed itself, and the keys of the others.
package replay

import (
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
// whether a standby has it, nor when it expires. A nil Cache is empty.
type Cache struct {
	life   time.Duration
	seed   maphash.Seed
	shards [shards]shard
}

const shards = 8

// NewCache returns a cache that holds up to size bytes, each for life; nil if size is 0.
func NewCache(size int64, life time.Duration) *Cache {
	if size == 0 {
		return nil
	}
	c := &Cache{life: life, seed: maphash.MakeSeed()}
	for i := range c.shards {
		c.shards[i].room = size / shards
		c.shards[i].m = map[store.ID]*entry{}
	}
	return c
}

func (c *Cache) shard(id store.ID) *shard {
	return &c.shards[maphash.Comparable(c.seed, id)%shards]
}

// Ticket is drawn before a COMMIT is sent. With it the result of that COMMIT is put into the
// cache.
type Ticket struct {
	drawn time.Time
	drops uint64
}

// Ticket returns a ticket for id.
func (c *Cache) Ticket(id store.ID) Ticket {
	if c == nil {
		return Ticket{}
	}
	s := c.shard(id)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return Ticket{time.Now(), s.drops}
}

// Put keeps a result whose commit was answered. It ends long before its record expires: the
// retention of the record begins after the ticket was drawn, and half of it is left for the
// difference between the clocks of process and database. A ticket from before a Drop admits
// nothing, because the result may be the one that was dropped.
func (c *Cache) Put(id store.ID, rec store.Record, retain time.Duration, t Ticket) {
	if c == nil {
		return
	}
	s := c.shard(id)
	if int64(len(rec.Result.Body)) > s.room {
		return
	}
	e := newEntry(id, rec)
	e.drawn, e.life = t.drawn, min(c.life, retain/2)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drops == t.drops && e.size <= s.room {
		s.put(e)
	}
}

// Get returns the record of id, as a replay needs it. Its bytes belong to the cache.
func (c *Cache) Get(id store.ID, now time.Time) (rec store.Record, ok bool) {
	if c == nil {
		return rec, false
	}
	s := c.shard(id)
	s.mu.RLock()
	defer s.mu.RUnlock()
	e := s.m[id]
	if e == nil || e.expired(now) {
		return rec, false
	}
	if !e.visited.Load() { // replays of the same key on other processors then share the cache line
		e.visited.Store(true)
	}
	return store.Record{State: store.StateDone, Fence: 1, Fingerprint: e.fingerprint, Result: e.result}, true
}

// Drop removes the result of id, and voids the tickets that were drawn before.
func (c *Cache) Drop(id store.ID) {
	if c == nil {
		return
	}
	s := c.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drops++
	if e := s.m[id]; e != nil {
		s.remove(e)
	}
}

// entry is a result and its place in the queue.
type entry struct {
	id          store.ID
	fingerprint []byte
	result      store.Result
	size        int64
	drawn       time.Time
	life        time.Duration
	visited     atomic.Bool // asked for since the hand was here

	older, newer *entry
}

// entrySize is what an entry takes beside its texts and bytes: itself, its place in
// the map, and what allocation rounds up.
const entrySize = 384

// newEntry copies what it keeps: a key may be a few bytes of a long header, and would keep all
// of it in memory.
func newEntry(id store.ID, rec store.Record) *entry {
	var text strings.Builder
	n := len(id.Scope) + len(id.Key)
	for _, f := range rec.Result.Header {
		n += len(f.Name) + len(f.Value)
	}
	text.Grow(n)
	keep := func(s string) string {
		from := text.Len()
		text.WriteString(s)
		return text.String()[from:]
	}
	e := &entry{id: store.ID{Scope: keep(id.Scope), Key: keep(id.Key)}, result: rec.Result}
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

// expired asks both clocks: the monotonic one stands still while the machine is suspended, and
// the wall clock may be set.
func (e *entry) expired(now time.Time) bool {
	return now.Sub(e.drawn) >= e.life || now.Round(0).Sub(e.drawn.Round(0)) >= e.life
}

// shard is a part of the cache: entries in the order in which they came, which is nearly the
// order in which they end. Where room is needed, a hand goes from the oldest to the newest and
// removes the first entry that was not asked for since the hand was last there (the algorithm
// is called SIEVE).
type shard struct {
	mu             sync.RWMutex
	m              map[store.ID]*entry
	oldest, newest *entry
	hand           *entry // nil: at the oldest
	room, used     int64
	drops          uint64
}

func (s *shard) put(e *entry) {
	if old := s.m[e.id]; old != nil {
		s.remove(old)
	}
	for s.oldest != nil && s.oldest.expired(e.drawn) {
		s.remove(s.oldest)
	}
	for s.used+e.size > s.room {
		s.evict()
	}
	s.m[e.id] = e
	s.used += e.size
	if e.older = s.newest; e.older != nil {
		e.older.newer = e
	} else {
		s.oldest = e
	}
	s.newest = e
}

func (s *shard) evict() {
	e := s.hand
	for e == nil || e.visited.Swap(false) {
		if e != nil {
			e = e.newer
		}
		if e == nil {
			e = s.oldest
		}
	}
	s.hand = e
	s.remove(e)
}

func (s *shard) remove(e *entry) {
	delete(s.m, e.id)
	s.used -= e.size
	if s.hand == e {
		s.hand = e.newer
	}
	if e.older != nil {
		e.older.newer = e.newer
	} else {
		s.oldest = e.newer
	}
	if e.newer != nil {
		e.newer.older = e.older
	} else {
		s.newest = e.older
	}
}
