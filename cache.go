package once

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncelib/once/store"
)

// Drop forgets what Config.Cache holds of an operation, and what calls that are ending
// now are about to put there. keys.Table.Forget calls it, if it was told of the engine;
// whoever else changes the record of an operation has to. Without a cache it does
// nothing.
func (e *Engine[TX]) Drop(scope, key string) {
	e.cache.drop(store.ID{Scope: scope, Key: key})
	if e.cfg.HashKeys {
		e.cache.drop(store.ID{Scope: scope, Key: HashedKey(key)})
	}
}

// cache keeps results that this process has committed itself, so that replaying them
// takes no database. What was only read is not in it: nobody here could tell whether a
// standby has it, or when it expires. A nil cache is empty.
type cache struct {
	life   time.Duration
	seed   maphash.Seed
	shards [cacheShards]cacheShard
}

const cacheShards = 8

// newCache returns a cache that holds up to size bytes, each for life; nil if size is 0.
func newCache(size int64, life time.Duration) *cache {
	if size == 0 {
		return nil
	}
	c := &cache{life: life, seed: maphash.MakeSeed()}
	for i := range c.shards {
		c.shards[i].room = size / cacheShards
		c.shards[i].m = map[store.ID]*cached{}
	}
	return c
}

func (c *cache) shard(id store.ID) *cacheShard {
	return &c.shards[maphash.Comparable(c.seed, id)%cacheShards]
}

// ticket is drawn before a COMMIT is sent, and admits its result.
type ticket struct {
	drawn time.Time
	drops uint64
}

func (c *cache) ticket(id store.ID) ticket {
	if c == nil {
		return ticket{}
	}
	s := c.shard(id)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return ticket{time.Now(), s.drops}
}

// put keeps a result whose commit was answered. It ends long before the record does,
// which began to count later than the ticket was drawn: half of the retention is left
// for what the clocks of process and database may disagree about. After a drop a
// ticket is void: the result may be what was forgotten.
func (c *cache) put(id store.ID, rec store.Record, retain time.Duration, t ticket) {
	if c == nil {
		return
	}
	s := c.shard(id)
	if int64(len(rec.Result.Body)) > s.room {
		return
	}
	e := newCached(id, rec)
	e.drawn, e.life = t.drawn, min(c.life, retain/2)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drops == t.drops && e.size <= s.room {
		s.put(e)
	}
}

// get returns the record of id, as a replay needs it. Its bytes belong to the cache.
func (c *cache) get(id store.ID, now time.Time) (rec store.Record, ok bool) {
	if c == nil {
		return rec, false
	}
	s := c.shard(id)
	s.mu.RLock()
	defer s.mu.RUnlock()
	e := s.m[id]
	if e == nil || e.over(now) {
		return rec, false
	}
	if !e.met.Load() {
		e.met.Store(true)
	}
	return store.Record{State: store.Done, Fence: 1, Fingerprint: e.fingerprint, Result: e.result}, true
}

func (c *cache) drop(id store.ID) {
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

// cached is a result and its place in the queue.
type cached struct {
	id          store.ID
	fingerprint []byte
	result      store.Result
	size        int64
	drawn       time.Time
	life        time.Duration
	met         atomic.Bool // asked for since the hand was here

	older, newer *cached
}

// cachedSize is what an entry takes beside its texts and bytes: itself, its place in
// the map, and what allocation rounds up.
const cachedSize = 384

// newCached copies whatever it keeps: a key may be a few bytes of a long header, and
// would keep all of it.
func newCached(id store.ID, rec store.Record) *cached {
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
	e := &cached{id: store.ID{Scope: keep(id.Scope), Key: keep(id.Key)}, result: rec.Result}
	bytes := slices.Concat(rec.Fingerprint, rec.Result.Body)
	at := len(rec.Fingerprint)
	e.fingerprint, e.result.Body = bytes[:at:at], bytes[at:len(bytes):len(bytes)]
	e.result.Header = make([]store.Field, len(rec.Result.Header))
	for i, f := range rec.Result.Header {
		e.result.Header[i] = store.Field{Name: keep(f.Name), Value: keep(f.Value)}
	}
	n += len(bytes) + 32*len(e.result.Header)
	e.size = cachedSize + int64(n+n/8)
	return e
}

// over asks both clocks: one stands still while the machine is suspended, the other is
// set.
func (e *cached) over(now time.Time) bool {
	return now.Sub(e.drawn) >= e.life || now.Round(0).Sub(e.drawn.Round(0)) >= e.life
}

// cacheShard is a part of the cache: entries in the order in which they came, which is
// nearly that in which they end. Where room is needed, a hand goes from the oldest to
// the newest and takes the first that nobody has asked for since it was last there
// (the algorithm is called SIEVE).
type cacheShard struct {
	mu             sync.RWMutex
	m              map[store.ID]*cached
	oldest, newest *cached
	hand           *cached // nil: at the oldest
	room, used     int64
	drops          uint64
}

func (s *cacheShard) put(e *cached) {
	if old := s.m[e.id]; old != nil {
		s.remove(old)
	}
	for s.oldest != nil && s.oldest.over(e.drawn) {
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

func (s *cacheShard) evict() {
	e := s.hand
	for e == nil || e.met.Swap(false) {
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

func (s *cacheShard) remove(e *cached) {
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
