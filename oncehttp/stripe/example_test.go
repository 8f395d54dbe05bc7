package stripe_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/oncehttp/stripe"
	"github.com/oncelib/once/store/memstore"
)

// Clients that are made for another API find what they know.
func ExampleV1() {
	engine := once.New(memstore.New(), once.Config{Cache: 64 << 20})
	dialect := stripe.V1()
	dialect.Retain = 48 * time.Hour // a preset is data: change what differs

	h := oncehttp.Handler(engine, oncehttp.Config{Principal: oncehttp.SharedPrincipal(), Preset: dialect, Optional: true},
		func(w http.ResponseWriter, _ *http.Request, _ *memstore.Tx) {
			w.WriteHeader(http.StatusInternalServerError) // final, too: that is how this dialect has it
		})
	for _, body := range []string{"amount=5", "amount=5", "amount=6"} {
		r := httptest.NewRequest(http.MethodPost, "/v1/charges", strings.NewReader(body))
		r.Header.Set("Idempotency-Key", "k")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header()["Idempotent-Replayed"], w.Header().Get("Stripe-Should-Retry"), w.Body.Len() > 0)
	}
	// Output:
	// 500 [] false false
	// 500 [true] false false
	// 400 [] false true
}

// Here a failure is not an answer, as it is in v1: a retry executes.
func ExampleV2() {
	engine := once.New(memstore.New(), once.Config{})
	runs := 0
	h := oncehttp.Handler(engine, oncehttp.Config{Principal: oncehttp.SharedPrincipal(), Preset: stripe.V2()},
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
