package payments_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/oncelib/once/cmd/once/internal/payments"
)

// A client that did not get its answer asks again with the same key.
func Example() {
	dir, err := os.MkdirTemp("", "payments-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	db, err := payments.Open(context.Background(), "sqlite:"+filepath.Join(dir, "payments.db"))
	if err != nil {
		panic(err)
	}
	defer func() { _ = db.Close() }()
	service := payments.NewServer(db, payments.Config{})

	for range 2 {
		r := httptest.NewRequest(http.MethodPost, "/charges", strings.NewReader(`{"amount":5000,"currency":"EUR","customer":"ada"}`))
		r.Header.Set("Authorization", "Bearer acme")
		r.Header.Set("Idempotency-Key", "order-17")
		w := httptest.NewRecorder()
		service.ServeHTTP(w, r)
		fmt.Println(w.Code, http.StatusText(w.Code), w.Header().Get("Idempotency-Status"))
	}
	// Output:
	// 201 Created stored
	// 201 Created replayed
}
