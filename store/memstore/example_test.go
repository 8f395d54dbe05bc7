package memstore_test

import (
	"fmt"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

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
