package limit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/oncelib/once"
	"github.com/oncelib/once/limit"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
)

// Handlers with idempotency keys have the limiter as their gate, all others around them.
func Example() {
	limiter := limit.New(limit.Config{Limit: 20})
	engine := once.New(memstore.New(), once.Config{})

	refunds := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
	protect := oncehttp.Middleware(engine, oncehttp.Config{Principal: oncehttp.Global(), Gate: limiter})

	mux := http.NewServeMux()
	mux.Handle("POST /refunds", protect(refunds))
	mux.Handle("GET /reports", limiter.Middleware(http.NotFoundHandler()))

	r := httptest.NewRequest(http.MethodPost, "/refunds", http.NoBody)
	r.Header.Set("Idempotency-Key", "k1")
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	fmt.Println(w.Code, limiter.State().Admitted)
	// Output: 201 1
}
