package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
	"github.com/oncelib/once/store/storetest"
)

type tx = *memstore.Tx

func TestConformance(t *testing.T) {
	storetest.Run(t, harness())
}

// harness makes each effect of a key a row of its own, numbered.
func harness() storetest.Harness[tx] {
	var mu sync.Mutex
	rows := map[string]int{}
	name := func(key string, n int) string { return fmt.Sprintf("effect/%s/%d", key, n) }
	next := func(key string) string {
		mu.Lock()
		defer mu.Unlock()
		rows[key]++
		return name(key, rows[key])
	}
	return storetest.Harness[tx]{
		Open:    func(testing.TB) store.Store[tx] { return memstore.New() },
		Peer:    func(_ testing.TB, s store.Store[tx]) store.Store[tx] { return s },
		Advance: func(_ testing.TB, s store.Store[tx], d time.Duration) { s.(*memstore.Store).Advance(d) },
		Write:   func(_ context.Context, t tx, key string) error { return t.Put(next(key), "") },
		Statement: func(key string) store.Statement {
			return store.Statement{SQL: "insert", Args: []any{next(key), ""}}
		},
		Fail: func(_ context.Context, t tx) error {
			return errors.Join(t.Put("taken", ""), t.Insert("taken", ""))
		},
		Effects: func(_ testing.TB, s store.Store[tx], key string) (n int) {
			mu.Lock()
			defer mu.Unlock()
			for i := range rows[key] {
				if _, ok := s.(*memstore.Store).Get(name(key, i+1)); ok {
					n++
				}
			}
			return n
		},
		Own: func(_ testing.TB, s store.Store[tx]) (tx, func(bool) error) {
			t := s.(*memstore.Store).BeginTx()
			return t, func(commit bool) error {
				if commit {
					return t.Commit()
				}
				t.Rollback()
				return nil
			}
		},
		End:        func(_ context.Context, t tx) error { return t.Commit() },
		Isolations: []store.Isolation{store.ReadCommitted, store.RepeatableRead, store.Serializable},
		OneLevel:   true,
	}
}
