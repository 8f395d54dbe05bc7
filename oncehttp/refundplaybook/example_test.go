package refundplaybook_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/oncehttp/refundplaybook"
	"github.com/oncelib/once/store/memstore"
)

// Clients that encode their JSON anew for every try ask for the same thing, and those that
// ask for another one are told so by a header.
func ExamplePreset() {
	engine := once.New(memstore.New(), once.Config{})
	h := oncehttp.Handler(engine, oncehttp.Config{Principal: oncehttp.SharedPrincipal(), Preset: refundplaybook.Preset()},
		func(w http.ResponseWriter, _ *http.Request, _ *memstore.Tx) {
			w.WriteHeader(http.StatusCreated)
			fmt.Fprint(w, "refunded")
		})
	for _, body := range []string{`{"charge":"ch_1","amount":10}`, `{ "amount": 10, "charge": "ch_1" }`, `{"charge":"ch_1","amount":99}`} {
		r := httptest.NewRequest(http.MethodPost, "/refunds", strings.NewReader(body))
		r.Header.Set("Idempotency-Key", "k")
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
