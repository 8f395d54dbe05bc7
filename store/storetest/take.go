package storetest

import (
	"bytes"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/upkeep"
)

// testTake proves that all waiting operations are taken, each by one taker, and that other operations do not change.
func testTake(t *testing.T, o *operations) {
	var ids []store.ID
	states := map[store.ID]store.State{}
	for i, state := range []store.State{store.StateWaiting, store.StateRunning, store.StateUnknown, store.StateDone, store.StateWaiting, store.StateAbsent, store.StateWaiting} {
		id := newID()
		ids, states[id] = append(ids, id), state
		if state == store.StateAbsent {
			continue
		}
		c := change(id, store.Expect{}, stored(state))
		if c.Lease = time.Hour; i%2 == 1 {
			c.Lease = time.Minute
		}
		o.swap(t, c)
	}
	const takers = 4
	var mu sync.Mutex
	var all sync.WaitGroup
	by := map[store.ID][]byte{}
	for i := range takers {
		s := o.s
		if i%2 == 1 {
			s = o.peer
		}
		taker, _ := store.As[upkeep.Taker](s)
		nonce := []byte{15: byte(i)}
		all.Go(func() {
			list, err := taker.Take(bounded(t), ids, nonce, time.Minute, store.Statement{SQL: "select t.scope from taken t"})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error("Take:", err)
			}
			for _, e := range list {
				if by[e.ID] != nil {
					t.Errorf("two calls of Take have returned the operation %v", e.ID)
				}
				by[e.ID] = nonce
				want := stored(store.StateRunning)
				if e.State != want.State || e.Fence != fence+1 || !bytes.Equal(e.Nonce, nonce) || e.Name != want.Name || !bytes.Equal(e.Data, want.Data) || e.Request != nil || e.LeaseExpired {
					t.Errorf("Take has returned an operation that it must not take: %+v", e)
				}
			}
		})
	}
	all.Wait()
	for id, state := range states {
		rec := o.read(t, id)
		want := state
		if state == store.StateWaiting {
			want = store.StateRunning
		}
		if rec.State != want || (by[id] != nil) != (state == store.StateWaiting) || by[id] != nil && (!bytes.Equal(rec.Nonce, by[id]) || rec.Fence != fence+1) {
			t.Errorf("%s: taken %t, and then %+v", state, by[id] != nil, rec)
		}
		if state == store.StateWaiting {
			continue
		}
		if want := stored(state); state != store.StateAbsent && (rec.Fence != want.Fence || !bytes.Equal(rec.Nonce, want.Nonce)) {
			t.Errorf("%s was changed: %+v", state, rec)
		}
	}
	o.advance(t, 2*time.Minute)
	for id := range by {
		if rec := o.read(t, id); !rec.LeaseExpired {
			t.Errorf("the lease of a taken operation does not expire: %+v", rec)
		}
	}
}
