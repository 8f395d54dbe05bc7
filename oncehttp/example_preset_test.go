package oncehttp_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
)

// Here a failure is not an answer, as it is in v1: a retry executes.
func ExampleStripeV2() {
	engine := once.New(memstore.New(), once.Config{})
	runs := 0
	h := oncehttp.Handler(engine, oncehttp.Config{Principal: oncehttp.Global(), Preset: oncehttp.StripeV2()},
		func(w http.ResponseWriter, _ *http.Request, _ *memstore.Tx) {
			if runs++; runs == 1 {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			fmt.Fprintf(w, "deleted in run %d", runs)
		})
	for range 3 {
		r := httptest.NewRequest(http.MethodDelete, "/v2/payouts/po_1", nil) // carries a key, too
		r.Header.Set("Idempotency-Key", "k")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Body.Len(), "bytes", w.Header()["Idempotent-Replayed"])
	}
	// Output:
	// 500 0 bytes []
	// 200 16 bytes []
	// 200 16 bytes [true]
}

// Clients that encode their JSON anew for every try ask for the same thing, and those that
// ask for another one are told so by a header.
func ExampleRefundPlaybook() {
	engine := once.New(memstore.New(), once.Config{})
	h := oncehttp.Handler(engine, oncehttp.Config{Principal: oncehttp.Global(), Preset: oncehttp.RefundPlaybook()},
		func(w http.ResponseWriter, _ *http.Request, _ *memstore.Tx) {
			w.WriteHeader(http.StatusCreated)
			fmt.Fprint(w, "refunded")
		})
	for _, body := range []string{`{"charge":"ch_1","amount":10}`, `{ "amount": 10, "charge": "ch_1" }`, `{"charge":"ch_1","amount":99}`} {
		r := post("/refunds", "k", body)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Printf("%d %q %q\n", w.Code, w.Header().Get("Idempotency-Status"), w.Header().Get("Error_code"))
	}
	// Output:
	// 201 "stored" ""
	// 201 "replayed" ""
	// 409 "" "CONFLICT.idempotency.payload_mismatch"
}
