package limit_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/oncelib/once"
	"github.com/oncelib/once/limit"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
)

func ExampleQuota() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	account := func(*http.Request) string { return "acme" } // from your authentication
	engine := once.New(memstore.New(), once.Config{})

	quota := limit.NewQuota(engine.Store(), limit.QuotaConfig{Bytes: 100 << 20})
	go func() { _ = quota.Run(ctx) }()
	protect := oncehttp.Middleware(engine, oncehttp.Config{Principal: account, Quota: quota})

	handler := protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = oncehttp.Tx[*memstore.Tx](r.Context()).Put("refund", "42")
		w.WriteHeader(http.StatusCreated)
	}))
	r := httptest.NewRequest(http.MethodPost, "/refunds", nil)
	r.Header.Set("Idempotency-Key", once.NewKey())
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	fmt.Println(w.Code)
	// Output: 201
}
