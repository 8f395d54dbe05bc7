package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/adaptor"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/sqlstore"
)

// Fiber's adapter for middleware runs the handler when the middleware has returned: after
// the commit, and without a transaction. Only its adapter for handlers will do.
func TestTrapOfHTTPMiddleware(t *testing.T) {
	db, err := sqlstore.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "refunds.db")+pragmas)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, err := prepare(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	engine := once.New(s, once.Config{})
	app, inside := fiber.New(), true
	app.Use(adaptor.HTTPMiddleware(oncehttp.Middleware(engine, oncehttp.Config{Principal: account})))
	app.Post("/refunds", func(c fiber.Ctx) error {
		_, inside = oncehttp.Key(c)
		return c.SendStatus(http.StatusCreated)
	})
	r := httptest.NewRequest(http.MethodPost, "/refunds", http.NoBody)
	r.Header.Set("Idempotency-Key", "k")
	r.Header.Set("X-Tenant", "acme")
	resp, err := app.Test(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	var stored int
	if err := db.QueryRowContext(context.Background(), "select count(*) from once_operation").Scan(&stored); err != nil || inside || stored != 1 {
		t.Errorf("inside: %v, %d operations, %v: the documentation must change", inside, stored, err)
	}
}
