package replay

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once/store"
)

// heap is what is in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestCacheIsBounded in real memory, whatever the results look like: small ones, large
// ones, many lines of header, and keys that are a part of something longer.
func TestCacheIsBounded(t *testing.T) {
	const room = 4 << 20
	long := func(n int) string { // text that shares its memory with more than itself
		return strings.Repeat("x", 256<<10)[:n]
	}
	for name, record := range map[string]func(i int) store.Record{
		"small": func(int) store.Record { return store.Record{} },
		"large": func(i int) store.Record {
			return store.Record{Result: store.Result{Body: bytes.Repeat([]byte{byte(i)}, 100_000)}}
		},
		"headers": func(int) store.Record {
			return store.Record{Result: store.Result{Header: []store.Field{{Name: "a", Value: "b"}, {Name: "c", Value: long(20)}, {Name: "e", Value: ""}}}}
		},
		"part of more": func(int) store.Record {
			body := make([]byte, 64<<10)
			return store.Record{Fingerprint: body[:33], Result: store.Result{Body: body[100:140]}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewCache(room, time.Hour)
			before := heap()
			kept := 0
			for i := range 20_000 {
				if i > 300 && name != "small" {
					break
				}
				key := fmt.Sprint(i)
				if name == "part of more" {
					key = (key + long(128<<10))[:len(key)]
				}
				id := store.ID{Scope: "s", Key: key}
				c.Put(id, record(i), 24*time.Hour, c.Ticket(id))
			}
			for i := range c.shards {
				s := &c.shards[i]
				kept += len(s.m)
				if s.used > s.room || s.used < 0 {
					t.Errorf("%d bytes of %d", s.used, s.room)
				}
			}
			took := heap() - before
			t.Logf("%d results in %d bytes", kept, took)
			if took > room || kept < 20 {
				t.Errorf("%d results take %d bytes, more than %d", kept, took, room)
			}
			runtime.KeepAlive(c)
		})
	}
}

// TestCacheKeepsWhatIsAskedFor when there is no room for all, and nothing that is too
// large for it.
func TestCacheKeepsWhatIsAskedFor(t *testing.T) {
	c := NewCache(shards*20*entrySize, time.Hour)
	put := func(key string, size int) {
		id := store.ID{Scope: "s", Key: key}
		c.Put(id, store.Record{Result: store.Result{Body: make([]byte, size)}}, 24*time.Hour, c.Ticket(id))
	}
	has := func(key string) bool {
		_, ok := c.Get(store.ID{Scope: "s", Key: key}, time.Now())
		return ok
	}
	put("hot", 10)
	for i := range 5000 {
		put(fmt.Sprint(i), 10)
		if !has("hot") {
			t.Fatalf("gone after %d others", i)
		}
	}
	if has("0") || !has("4999") {
		t.Error("the oldest is there, or the newest is not")
	}
	put("large", 20*entrySize)
	put("huge", 200*entrySize)
	if has("large") || has("huge") {
		t.Error("larger than its part of the room")
	}
	for i := range c.shards { // both ways through the queue lead to the same
		s, n := &c.shards[i], 0
		for e := s.oldest; e != nil; e = e.newer {
			if n++; e.newer == nil && s.newest != e || s.m[e.id] != e {
				t.Error("the queue is broken")
			}
		}
		if n != len(s.m) {
			t.Errorf("%d in the queue, %d in the map", n, len(s.m))
		}
	}
}

// TestCacheGoesByBothClocks: one stands still while the machine is suspended.
func TestCacheGoesByBothClocks(t *testing.T) {
	c, id := NewCache(1<<20, time.Minute), store.ID{Scope: "s", Key: "k"}
	c.Put(id, store.Record{}, time.Hour, c.Ticket(id))
	now := time.Now()
	if _, ok := c.Get(id, now.Add(59*time.Second)); !ok {
		t.Error("it has ended too early")
	}
	if _, ok := c.Get(id, now.Add(61*time.Second)); ok {
		t.Error("it has not ended")
	}
	if _, ok := c.Get(id, now.Round(0).Add(61*time.Second)); ok { // no monotonic clock: the wall says so alone
		t.Error("it has not ended by the wall clock")
	}
	suspended := Ticket{drawn: now.Round(0).Add(-61 * time.Second)}
	c.Put(id, store.Record{}, time.Hour, suspended)
	if _, ok := c.Get(id, now); ok {
		t.Error("it has not ended by the wall clock")
	}
}

// TestExpiredResultsMakeRoom: what has ended does not stay in memory.
func TestExpiredResultsMakeRoom(t *testing.T) {
	c := NewCache(1<<20, time.Minute)
	began := time.Now()
	for i := range 100 {
		id := store.ID{Scope: "s", Key: fmt.Sprint(i)}
		c.Put(id, store.Record{}, time.Hour, Ticket{drawn: began})
	}
	for i := range 100 { // at least one in each shard
		id := store.ID{Scope: "s", Key: fmt.Sprint("later", i)}
		c.Put(id, store.Record{}, time.Hour, Ticket{drawn: began.Add(time.Minute)})
	}
	n := 0
	for i := range c.shards {
		n += len(c.shards[i].m)
	}
	if n != 100 {
		t.Errorf("%d results are kept", n)
	}
}

// TestATicketFromBeforeADropIsVoid: what was dropped while its COMMIT was on its way does not
// come back.
func TestATicketFromBeforeADropIsVoid(t *testing.T) {
	c, id := NewCache(1<<20, time.Minute), store.ID{Scope: "s", Key: "k"}
	before := c.Ticket(id)
	c.Drop(id)
	c.Put(id, store.Record{}, time.Hour, before)
	if _, ok := c.Get(id, time.Now()); ok {
		t.Error("a dropped result came back")
	}
	c.Put(id, store.Record{}, time.Hour, c.Ticket(id))
	if _, ok := c.Get(id, time.Now()); !ok {
		t.Error("a result from after the drop is not kept")
	}
	c.Drop(id)
	if _, ok := c.Get(id, time.Now()); ok {
		t.Error("it was dropped and is there")
	}
}
