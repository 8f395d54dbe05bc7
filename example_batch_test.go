package once_test

import (
	"context"
	"fmt"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store/memstore"
)

// The ids are the client's own and the answer is known beforehand, so that nothing has to
// be read. With pgxstore the statements are SQL, and all of it is one round trip.
func ExampleDoBatch() {
	engine := once.New(memstore.New(), once.Config{})
	op := once.Operation{Scope: "acme charges", Key: "order-17"}
	type Charge struct{ ID string }
	for range 2 {
		charge := Charge{"ch_" + "1"} // once.NewKey() in place of "1"
		r, err := once.DoBatch(context.Background(), engine, op, func(b *once.Batch) (Charge, error) {
			b.Exec("insert", charge.ID, "5000")
			b.ExecRows(1, "put", "last charge", charge.ID)
			return charge, nil
		})
		fmt.Println(r.Value.ID, r.Replayed, err)
	}
	// Output:
	// ch_1 false <nil>
	// ch_1 true <nil>
}
