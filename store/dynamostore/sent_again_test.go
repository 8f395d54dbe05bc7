package dynamostore_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/dynamostore"
	"github.com/oncelib/once/store/dynamostore/internal/dynamofake"
	"github.com/oncelib/once/store/upkeep"
)

// cutOne cuts the answer to the first request of an operation.
func cutOne(name string, fault dynamofake.Fault) func(string) dynamofake.Fault {
	var cut atomic.Bool
	return func(operation string) dynamofake.Fault {
		if operation == name && !cut.Swap(true) {
			return fault
		}
		return dynamofake.None
	}
}

// TestSentAgain: a write whose answer was lost is sent again by the client, and has one effect. It recognises its own nonce, or the service
// its token; the caller is told that it was applied, and no more requests are sent.
func TestSentAgain(t *testing.T) {
	server, client := newFake(t)
	s := dynamostore.New(clientOf(server.URL, 2), "once")
	if err := s.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	id := store.ID{Scope: "s", Key: "k"}
	running := store.Record{State: store.StateRunning, Fence: 1, Nonce: []byte("the claim of one")}
	next := store.Record{State: store.StateRunning, Fence: 2, Nonce: []byte("the claim of one"), Data: []byte("data")}
	held := store.Change{ID: store.ID{Scope: "s", Key: "other"}, Next: running, Held: []store.Hold{{ID: id, Fence: 2, Nonce: next.Nonce}}}
	for _, fault := range []dynamofake.Fault{dynamofake.CutAfter, dynamofake.FailsAfter} {
		for _, c := range []struct {
			operation string
			change    store.Change
		}{
			{"PutItem", store.Change{ID: id, Next: running}},
			{"UpdateItem", store.Change{ID: id, Expect: store.Expect{Fence: 1}, Next: next}},
			{"TransactWriteItems", held},
		} {
			server.Counts()
			server.SetFault(cutOne(c.operation, fault))
			_, err := s.Swap(t.Context(), c.change)
			if got := server.Counts(); err != nil || got[c.operation] != 2 || len(got) != 1 {
				t.Errorf("%s: requests %v, error %v", c.operation, got, err)
			}
		}
		release := store.Change{ID: id, Expect: store.Expect{Fence: 2, Nonce: next.Nonce}}
		server.SetFault(cutOne("DeleteItem", fault))
		if _, err := s.Swap(t.Context(), release); store.KindOf(err) != store.KindLost { // nothing is left that could tell
			t.Errorf("a release: %v, want lost", err)
		}
		if _, err := s.Swap(t.Context(), store.Change{ID: held.ID, Expect: store.Expect{Fence: 1}}); err != nil {
			t.Error(err)
		}
	}
	_ = client
}

// TestSentAgainByAnother: what is in the way is not taken for one's own, however often the request was sent.
func TestSentAgainByAnother(t *testing.T) {
	server, _ := newFake(t)
	s := dynamostore.New(clientOf(server.URL, 2), "once")
	change := func(nonce string) store.Change {
		return store.Change{ID: store.ID{Scope: "s", Key: "k"}, Next: store.Record{State: store.StateDone, Fence: 1, Nonce: []byte(nonce)}}
	}
	if _, err := s.Swap(t.Context(), change("the claim of one")); err != nil {
		t.Fatal(err)
	}
	for _, fault := range []dynamofake.Fault{dynamofake.None, dynamofake.CutBefore, dynamofake.CutAfter} {
		server.SetFault(cutOne("PutItem", fault))
		if rec, err := s.Swap(t.Context(), change("the claim of two")); store.KindOf(err) != store.KindTaken || string(rec.Nonce) != "the claim of one" {
			t.Errorf("%+v, %v, want Taken", rec, err)
		}
	}
	if _, err := s.Swap(t.Context(), change("the claim of one")); store.KindOf(err) != store.KindTaken { // the same, and not the client's
		t.Errorf("the same change again: %v, want Taken", err)
	}
}

// TestAWriteThatArrivesLate: a commit that was given up arrives after the operation was executed again, has expired and was swept as
// early as can be. It has no effect.
func TestAWriteThatArrivesLate(t *testing.T) {
	for _, items := range []bool{true, false} {
		server, client := newFake(t)
		key := "late"
		op := operation(key)
		op.Retain = 10 * time.Minute
		handler := func(_ context.Context, t tx) (string, error) {
			if items {
				return once.NewKey(), t.Put(effect(key))
			}
			return once.NewKey(), nil
		}
		server.SetFault(cutOne(map[bool]string{true: "TransactWriteItems", false: "PutItem"}[items], dynamofake.Later))
		s := dynamostore.New(client, "once")
		executed, err := once.Do(t.Context(), once.New(s, once.Config{Observer: once.Discard}), op, handler) // runs again
		if err != nil {
			t.Fatal(err)
		}
		server.SetFault(nil)
		server.Advance(14 * time.Minute) // a signature is worth no more
		if swept, err := dynamostore.New(client, "once").Sweep(t.Context(), upkeep.Sweep{Limit: 10}); err != nil || swept.Rows != 0 {
			t.Errorf("swept %+v, %v: the record is what keeps a late write out", swept, err)
		}
		server.Release()
		want := map[bool]int{true: 1}[items]
		if n := count(t, client, key); n != want {
			t.Errorf("%d effects, want %d; the answer was %q", n, want, executed.Value)
		}
	}
}
