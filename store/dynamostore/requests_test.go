package dynamostore_test

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/dynamostore"
	"github.com/oncelib/once/store/dynamostore/internal/dynamofake"
)

func operation(key string) once.Operation {
	return once.Operation{Scope: "acme POST /orders", Key: key}
}

// order writes one item.
func order(key string) func(context.Context, tx) (string, error) {
	return func(_ context.Context, t tx) (string, error) { return once.NewKey(), t.Put(effect(key)) }
}

// TestRequestsOfEachCall counts what each call sends.
func TestRequestsOfEachCall(t *testing.T) {
	server, client := newFake(t)
	s := dynamostore.New(client, "once")
	e := once.New(s, once.Config{})
	if err := s.Check(t.Context()); err != nil { // and hears the time
		t.Fatal(err)
	}
	first, looked, alone, batch := operation("first"), operation("looked"), operation("alone"), operation("batch")
	first.Attempt.Number = 1
	do := func(op once.Operation) func() error {
		return func() error { _, err := once.Do(t.Context(), e, op, order(op.Key)); return err }
	}
	fresh := func(op once.Operation) func() error { // in another process
		return func() error {
			r, err := once.Do(t.Context(), once.New(s, once.Config{}), op, order(op.Key))
			if !r.Replayed {
				t.Error("not replayed")
			}
			return err
		}
	}
	declare := func(b *once.Batch) (string, error) { b.Exec("item", effect("batch")); return "", nil }
	server.Counts()
	for _, c := range []struct {
		name string
		call func() error
		want map[string]int
	}{
		{"first attempt", do(first), map[string]int{"TransactWriteItems": 1}},
		{"look-up and commit", do(looked), map[string]int{"GetItem": 1, "TransactWriteItems": 1}},
		{"no items", func() error {
			_, err := once.Do(t.Context(), once.New(s, once.Config{Observer: once.Discard}), alone, func(context.Context, tx) (int, error) { return 1, nil })
			return err
		}, map[string]int{"GetItem": 1, "PutItem": 1}},
		{"replay", do(looked), map[string]int{"GetItem": 1}},
		{"replay in another process", fresh(looked), map[string]int{"GetItem": 1}},
		{"batch", func() error { _, err := once.DoBatch(t.Context(), e, batch, declare); return err }, map[string]int{"TransactWriteItems": 1}},
		{"replay of a batch", func() error { _, err := once.DoBatch(t.Context(), e, batch, declare); return err }, map[string]int{"GetItem": 1}},
	} {
		server.Counts()
		if err := c.call(); err != nil {
			t.Error(c.name, err)
		}
		if got := server.Counts(); !maps.Equal(got, c.want) {
			t.Errorf("%s: requests %v, want %v", c.name, got, c.want)
		}
	}
}

// TestRequestsOfALease counts what a call under a lease sends.
func TestRequestsOfALease(t *testing.T) {
	server, client := newFake(t)
	s := dynamostore.New(client, "once")
	if err := s.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.Counts()
	if _, err := once.Do(t.Context(), once.New(lease.New(s, lease.Config{}), once.Config{}), operation("leased"), charge(s, "leased", func(string) error { return nil })); err != nil {
		t.Fatal(err)
	}
	got := server.Counts()
	t.Log("a phase with an item, and a call:", got)
	if got["TransactWriteItems"] != 1 || got["GetItem"] != 1 || got["UpdateItem"]+got["PutItem"] > 3 {
		t.Errorf("requests %v", got)
	}
}

// charge is leased work: it writes an item, and calls another service.
func charge(s *dynamostore.Store, key string, call func(key string) error) func(context.Context, *lease.Run) (string, error) {
	return func(ctx context.Context, run *lease.Run) (string, error) {
		if _, err := lease.InTx(ctx, run, s, "reserve", order(key)); err != nil {
			return "", err
		}
		return lease.Call(ctx, run, "charge", func(_ context.Context, key string) (string, error) { return key, call(key) }, lease.CallPolicy{DedupedFor: 24 * time.Hour})
	}
}

// TestFortyNodes: 40 processes get 10 duplicates each of 4 operations, and lose answers. Each operation takes effect once.
func TestFortyNodes(t *testing.T) {
	server, client := newFake(t)
	var mu sync.Mutex
	requests, hits := 0, 0
	faults := []dynamofake.Fault{dynamofake.CutBefore, dynamofake.CutAfter, dynamofake.CutAnswer, dynamofake.Conflict, dynamofake.FailsAfter, dynamofake.Later}
	server.SetFault(func(string) dynamofake.Fault {
		mu.Lock()
		defer mu.Unlock()
		if requests++; requests%5 == 0 {
			hits++
			return faults[hits%len(faults)]
		}
		return dynamofake.None
	})
	keys := []string{"a", "b", "c", "d"}
	var all sync.WaitGroup
	results := make([]once.Result[string], 40)
	for i := range results {
		e := once.New(dynamostore.New(clientOf(server.URL, 1+i%3), "once"), once.Config{Observer: once.Discard})
		all.Go(func() {
			op := operation(keys[i%len(keys)])
			for {
				r, err := once.Do(t.Context(), e, op, order(op.Key))
				if results[i] = r; err == nil {
					return
				}
				if code := once.CodeOf(err); code != once.CodeUnavailable && code != once.CodeConflict {
					t.Errorf("%s: %v", op.Key, err)
					return
				}
				op.Attempt.Number = 2
			}
		})
	}
	all.Wait()
	server.SetFault(nil)
	server.Release()
	executed := 0
	for i, r := range results {
		if r.Value != results[i%len(keys)].Value {
			t.Errorf("two answers for %s", keys[i%len(keys)])
		}
		if !r.Replayed {
			executed++
		}
	}
	for _, key := range keys {
		if n := count(t, client, key); n != 1 {
			t.Errorf("%s: %d effects", key, n)
		}
	}
	if executed == 0 || executed > len(keys) || hits < len(faults) {
		t.Errorf("%d of %d calls have executed, with %d faults", executed, len(results), hits)
	}
}

// TestAConditionOfTheHandler: if it does not hold, nothing is applied and the cause says so; if it does not hold because the operation is
// done already, the call replays.
func TestAConditionOfTheHandler(t *testing.T) {
	_, client := newFake(t)
	e := once.New(dynamostore.New(client, "once"), once.Config{Runs: 1, Observer: once.Discard})
	put := effect("stock")
	absent := "attribute_not_exists(n)"
	put.ConditionExpression = &absent
	reserve := func(_ context.Context, t tx) (string, error) { return once.NewKey(), t.Put(put) }
	op := operation("one")
	op.Attempt.Number = 1
	executed, err := once.Do(t.Context(), e, op, reserve)
	if err != nil {
		t.Fatal(err)
	}
	again, err := once.Do(t.Context(), once.New(dynamostore.New(client, "once"), once.Config{}), op, reserve) // both conditions fail
	if err != nil || !again.Replayed || again.Value != executed.Value {
		t.Errorf("%+v, %v, want a replay", again, err)
	}
	_, err = once.Do(t.Context(), e, operation("two"), reserve)
	if once.CodeOf(err) != once.CodeFailed || !errors.Is(err, store.ErrRows) || once.EffectOf(err) != once.EffectNotApplied {
		t.Errorf("%v, want a failure by ErrRows", err)
	}
	if n := count(t, client, "stock"); n != 1 {
		t.Errorf("%d effects", n)
	}
}
