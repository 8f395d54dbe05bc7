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
			for i := range 20_000 {
				if i > 300 && name != "small" {
					break
				}
				key := fmt.Sprint(i)
				if name == "part of more" {
					key = (key + long(128<<10))[:len(key)]
				}
				id := store.ID{Scope: "s", Key: key}
				c.Put(id, record(i), 24*time.Hour, c.Ticket())
			}
			if c.used > c.size || c.used < 0 {
				t.Errorf("%d bytes of %d", c.used, c.size)
			}
			took, kept := heap()-before, len(c.entries)
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
	const share = 20 * entrySize // of one result, at most
	c := NewCache(minResults*share, time.Hour)
	put := func(key string, size int) {
		id := store.ID{Scope: "s", Key: key}
		c.Put(id, store.Record{Result: store.Result{Body: make([]byte, size)}}, 24*time.Hour, c.Ticket())
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
	put("fits", share*3/4)
	put("large", share)
	put("huge", 10*share)
	if !has("fits") || has("large") || has("huge") {
		t.Error("only a result that fits into its part of the room is kept")
	}
	put("fits", 10) // in place of the one before
	used := int64(0)
	for at := c.order.Front(); at != nil; at = at.Next() {
		e := at.Value.(*entry)
		if used += e.size; c.entries[e.id] != at {
			t.Errorf("%v is in the order and not in the map", e.id)
		}
	}
	if c.order.Len() != len(c.entries) || used != c.used {
		t.Errorf("%d results with %d bytes are in the order; %d and %d are counted", c.order.Len(), used, len(c.entries), c.used)
	}
}

// TestCacheGoesByBothClocks: one stands still while the machine is suspended.
func TestCacheGoesByBothClocks(t *testing.T) {
	c, id := NewCache(1<<20, time.Minute), store.ID{Scope: "s", Key: "k"}
	now := time.Now()
	c.Put(id, store.Record{}, time.Hour, Ticket{drawn: now})
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
	id := store.ID{Scope: "s", Key: "later"}
	c.Put(id, store.Record{}, time.Hour, Ticket{drawn: began.Add(time.Minute)})
	if n := len(c.entries); n != 1 {
		t.Errorf("%d results are kept", n)
	}
}

// TestATicketFromBeforeADropIsVoid: what was dropped while its COMMIT was on its way does not
// come back.
func TestATicketFromBeforeADropIsVoid(t *testing.T) {
	c, id := NewCache(1<<20, time.Minute), store.ID{Scope: "s", Key: "k"}
	before := c.Ticket()
	c.Drop(id)
	c.Put(id, store.Record{}, time.Hour, before)
	if _, ok := c.Get(id, time.Now()); ok {
		t.Error("a dropped result came back")
	}
	c.Put(id, store.Record{}, time.Hour, c.Ticket())
	if _, ok := c.Get(id, time.Now()); !ok {
		t.Error("a result from after the drop is not kept")
	}
	c.Drop(id)
	if _, ok := c.Get(id, time.Now()); ok {
		t.Error("it was dropped and is there")
	}
}
