package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

func TestReadsAreValidated(t *testing.T) {
	for _, tt := range []struct {
		name  string
		other func(tx) error
		want  store.Kind
	}{
		{"changed", func(t tx) error { return t.Put("k", "2") }, store.KindRetry},
		{"deleted", func(t tx) error { return t.Delete("k") }, store.KindRetry},
		{"the same", func(t tx) error { return t.Put("k", "1") }, store.KindOther},
		{"another key", func(t tx) error { return t.Put("l", "2") }, store.KindOther},
		{"inserted", func(t tx) error { return t.Insert("absent", "1") }, store.KindRetry},
	} {
		s := memstore.New()
		put(t, s, "k", "1")
		a := s.BeginTx()
		for _, key := range []string{"k", "absent"} {
			if _, _, err := a.Get(key); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Put("mine", "1"); err != nil {
			t.Fatal(err)
		}
		b := s.BeginTx()
		if err := errors.Join(tt.other(b), b.Commit()); err != nil {
			t.Fatal(err)
		}
		err := a.Commit()
		if _, applied := s.Get("mine"); store.KindOf(err) != tt.want || applied != (err == nil) {
			t.Errorf("%s: %v, applied %t", tt.name, err, applied)
		}
	}
}

func TestCounterLosesNothing(t *testing.T) {
	s := memstore.New()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				for {
					a := s.BeginTx()
					v, _, _ := a.Get("n")
					n, _ := strconv.Atoi(v)
					_ = a.Put("n", strconv.Itoa(n+1))
					if err := a.Commit(); err == nil {
						break
					} else if store.KindOf(err) != store.KindRetry {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	if n, _ := s.Get("n"); n != "800" {
		t.Errorf("counted %s", n)
	}
}

func TestTxSeesItsOwnWrites(t *testing.T) {
	s := memstore.New()
	put(t, s, "k", "old")
	a := s.BeginTx()
	see := func(key, want string, there bool) {
		t.Helper()
		if v, ok, err := a.Get(key); v != want || ok != there || err != nil {
			t.Errorf("Get(%s): %q, %t, %v", key, v, ok, err)
		}
	}
	see("k", "old", true)
	must(t, a.Put("k", "new"))
	see("k", "new", true)
	must(t, a.Delete("k"))
	see("k", "", false)
	must(t, a.Insert("k", "again"))
	see("k", "again", true)
	for i := range 100 { // more than fit without an allocation
		must(t, a.Put(fmt.Sprint(i), "v"))
	}
	if v, _ := s.Get("k"); v != "old" {
		t.Errorf("visible before the commit: %q", v)
	}
	must(t, a.Commit())
	if v, _ := s.Get("k"); v != "again" {
		t.Errorf("after the commit: %q", v)
	}
	if _, ok := s.Get("99"); !ok {
		t.Error("a write is missing")
	}
}

func TestPoisonedTransactionIsNotApplied(t *testing.T) {
	s := memstore.New()
	put(t, s, "taken", "1")
	a := s.BeginTx()
	must(t, a.Put("k", "v"))
	if err := a.Insert("taken", "2"); err == nil {
		t.Fatal("inserted a key that exists")
	}
	_, _, get := a.Get("k")
	for _, err := range []error{get, a.Put("l", "v"), a.Insert("l", "v"), a.Delete("k")} {
		if err == nil {
			t.Error("a statement was accepted after one has failed")
		}
	}
	if err := a.Commit(); store.KindOf(err) != store.KindAborted {
		t.Errorf("Commit: %v", err)
	}
	if _, ok := s.Get("k"); ok {
		t.Error("a poisoned transaction was applied")
	}
}

func TestEndedTransactionIsRefused(t *testing.T) {
	s := memstore.New()
	a := s.BeginTx()
	must(t, a.Commit())
	a.Rollback() // deferred, say
	_, _, get := a.Get("k")
	for _, err := range []error{get, a.Put("k", "v"), a.Insert("k", "v"), a.Delete("k"), a.Commit()} {
		if err == nil {
			t.Error("a transaction was used after its end")
		}
	}
	ctx := context.Background()
	ask := store.BeginOptions{ID: store.ID{Scope: "s", Key: "k"}}
	if _, _, err := s.Join(ctx, a, ask); store.KindOf(err) != store.KindEnded {
		t.Errorf("Join: %v", err)
	}
	if _, _, err := s.Join(ctx, memstore.New().BeginTx(), ask); store.KindOf(err) != store.KindMisused {
		t.Errorf("Join with another store's transaction: %v", err)
	}
	b := s.BeginTx()
	_, _ = b.Insert("k", "v"), b.Insert("k", "v")
	if _, _, err := s.Join(ctx, b, ask); store.KindOf(err) != store.KindAborted {
		t.Errorf("Join with a poisoned transaction: %v", err)
	}
}

func TestStatementsAndTheirRows(t *testing.T) {
	args := func(a ...any) []any { return a }
	for _, tt := range []struct {
		s  store.Statement
		ok bool
	}{
		{store.Statement{SQL: "put", Args: args("k", "v")}, true},
		{store.Statement{SQL: "put", Args: args("k", "v"), Rows: 1}, true},
		{store.Statement{SQL: "put", Args: args("k", "v"), Rows: 2}, false},
		{store.Statement{SQL: "insert", Args: args("new", "v"), Rows: 1}, true},
		{store.Statement{SQL: "insert", Args: args("k", "v")}, false},
		{store.Statement{SQL: "delete", Args: args("k"), Rows: 1}, true},
		{store.Statement{SQL: "delete", Args: args("absent")}, true},
		{store.Statement{SQL: "delete", Args: args("absent"), Rows: 1}, false},
		{store.Statement{SQL: "put", Args: args("k")}, false},
		{store.Statement{SQL: "put", Args: args("k", 1)}, false},
		{store.Statement{SQL: "put", Args: args(1, "v")}, false},
		{store.Statement{SQL: "delete", Args: args("k", "v")}, false},
		{store.Statement{SQL: "select 1"}, false},
	} {
		for _, how := range []string{"Swap", "Commit"} {
			s := memstore.New()
			put(t, s, "k", "v")
			ctx, c := context.Background(), store.Change{Writes: []store.Statement{tt.s}}
			var err error
			if how == "Swap" {
				_, err = s.Swap(ctx, c)
			} else {
				claim, _, e := s.Begin(ctx, store.BeginOptions{})
				must(t, e)
				err = claim.Commit(ctx, c)
			}
			if (err == nil) != tt.ok || err != nil && store.KindOf(err) != store.KindOther {
				t.Errorf("%s: %+v: %v", how, tt.s, err)
			}
		}
	}
}

// The middleware's own cost is measured on top of this store.
func TestAllocationsOfACommit(t *testing.T) {
	s := memstore.New()
	ctx := context.Background()
	done := store.Record{State: store.StateDone, Nonce: make([]byte, 16), Fingerprint: make([]byte, 33), Result: store.Result{Body: make([]byte, 100)}}
	n := 0
	got := testing.AllocsPerRun(1000, func() {
		n++
		id := store.ID{Scope: "s", Key: strconv.Itoa(n)} // 1
		txn, _, err := s.Begin(ctx, store.BeginOptions{ID: id})
		must(t, err)
		must(t, txn.Tx().Put("k", "v"))
		must(t, txn.Commit(ctx, store.Change{ID: id, Next: done, Retain: time.Hour}))
	})
	if got > 6 {
		t.Errorf("%v allocations for Begin and Commit", got)
	}
}

func put(t *testing.T, s *memstore.Store, key, value string) {
	t.Helper()
	a := s.BeginTx()
	must(t, errors.Join(a.Put(key, value), a.Commit()))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
