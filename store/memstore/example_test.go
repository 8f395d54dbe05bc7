package memstore_test

import (
	"context"
	"fmt"
	"time"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// What waits in a store is told with its age.
func ExampleStore_Backlog() {
	ctx, s := context.Background(), memstore.New()
	lost := store.Change{ID: store.ID{Scope: "acme", Key: "order-42"}, Next: store.Record{State: store.StateUnknown, Fence: 1}}
	if _, err := s.Swap(ctx, lost); err != nil {
		fmt.Println(err)
	}
	s.Advance(time.Hour)
	backlog, err := s.Backlog(ctx)
	fmt.Println(backlog.Unknown.Number, "unknown, the oldest for", backlog.Unknown.Oldest.Round(time.Minute), err)
	// Output:
	// 1 unknown, the oldest for 1h0m0s <nil>
}

// Two transactions that depend on the same key: the second one is to run again.
func ExampleStore_BeginTx() {
	s := memstore.New()
	a, b := s.BeginTx(), s.BeginTx()
	for _, tx := range []*memstore.Tx{a, b} {
		balance, _, err := tx.Get("balance")
		if err == nil {
			err = tx.Put("balance", balance+"1")
		}
		fmt.Println(err)
	}
	fmt.Println(a.Commit())
	fmt.Println(store.KindOf(b.Commit()))
	fmt.Println(s.Get("balance"))
	// Output:
	// <nil>
	// <nil>
	// <nil>
	// retry
	// 1 true
}
