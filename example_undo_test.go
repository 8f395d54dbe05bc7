package once_test

import (
	"context"
	"fmt"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store/memstore"
)

type Deposit struct {
	ID    string
	Cents int
}

// A bank takes part in transfers of others: it undoes a deposit without having to know whether it was made.
func ExampleUndo() {
	ctx := context.Background()
	engine := once.New(memstore.New(), once.Config{})
	undo := func(op once.Operation) {
		did, err := once.Undo(ctx, engine, op, func(_ context.Context, tx *memstore.Tx, d Deposit) error {
			return tx.Delete("deposit " + d.ID)
		})
		fmt.Println("undone:", did, err)
	}
	deposit := func(op once.Operation) {
		r, err := once.Do(ctx, engine, op, func(_ context.Context, tx *memstore.Tx) (Deposit, error) {
			return Deposit{op.Key, 500}, tx.Put("deposit "+op.Key, "500")
		})
		fmt.Println(r.Value, err)
	}
	made := once.Operation{Scope: "other-bank deposits", Key: "transfer-1"}
	deposit(made)
	undo(made)
	late := once.Operation{Scope: "other-bank deposits", Key: "transfer-2"}
	undo(late)
	deposit(late)
	// Output:
	// {transfer-1 500} <nil>
	// undone: true <nil>
	// undone: false <nil>
	// { 0} CONFLICT.idempotency.undone: This operation was undone before it was executed.
}
