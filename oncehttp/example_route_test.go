package oncehttp_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
)

// A route says as data which keys it takes, what makes two requests the same one, and what of an answer is not stored.
func ExampleConfig() {
	cfg := oncehttp.Config{
		Principal: oncehttp.SharedPrincipal(),
		KeyFormat: oncehttp.KeyFormat{UUID: true},
		Compare:   oncehttp.Compare{JSON: []string{"/amount", "/currency"}},
		Redact:    []string{"/card/token"},
	}
	engine := once.New(memstore.New(), once.Config{})
	h := oncehttp.Handler(engine, cfg, func(w http.ResponseWriter, _ *http.Request, tx *memstore.Tx) {
		if err := tx.Insert("charge 1", "1000"); err != nil {
			panic(err)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":1,"card":{"token":"tok_1","last4":"4242"}}`)
	})
	for _, body := range []string{
		`{"amount":1000,"currency":"EUR","sent_at":"12:00:00"}`,
		`{"amount":1000,"currency":"EUR","sent_at":"12:00:09"}`, // a retry: the time is not compared
		`{"amount":9999,"currency":"EUR","sent_at":"12:00:12"}`,
	} {
		r, w := httptest.NewRequest(http.MethodPost, "/charges", strings.NewReader(body)), httptest.NewRecorder()
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", "8e03978e-40d5-43e8-bc93-6894a57f9324")
		h.ServeHTTP(w, r)
		fmt.Printf("%d %q %s\n", w.Code, w.Header().Get("Idempotency-Status"), w.Header().Values("Idempotency-Redacted"))
		if w.Code == http.StatusOK {
			fmt.Println(w.Body)
		}
	}
	// Output:
	// 200 "stored" []
	// {"id":1,"card":{"token":"tok_1","last4":"4242"}}
	// 200 "replayed" ["/card/token"]
	// {"id":1,"card":{"token":null,"last4":"4242"}}
	// 422 "" []
}
