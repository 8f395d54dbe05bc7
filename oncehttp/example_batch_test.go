package oncehttp_test

import (
	"encoding/json"
	"net/http"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
)

// A handler that reads nothing declares its writes and answers. With pgxstore the
// statements are SQL; key, writes, answer and COMMIT are one round trip.
func ExampleBatchHandler() {
	engine := once.New(memstore.New(), once.Config{})
	ids := []string{"ch_1", "ch_2"} // "ch_" + once.NewKey() in production

	charge := oncehttp.BatchHandler(engine, oncehttp.Config{Principal: oncehttp.SharedPrincipal()},
		func(w http.ResponseWriter, r *http.Request, b *once.Batch) {
			id := ids[0]
			ids = ids[1:] // also for a retry, which is then replayed: the handler runs before the look-up
			b.Exec("insert", id, "5000")
			b.ExecRows(1, "put", "last charge", id) // as a condition: exactly one row, or nothing commits
			w.WriteHeader(http.StatusCreated)
			_ = json.NewEncoder(w).Encode(map[string]string{"id": id})
		})
	show(charge, post("/charges", "order-17", "amount=5000"))
	show(charge, post("/charges", "order-17", "amount=5000"))
	// Output:
	// 201 stored {"id":"ch_1"}
	// 201 replayed {"id":"ch_1"}
}
