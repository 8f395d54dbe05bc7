package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/adaptor"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/sqlstore"
)

// TestTwoMountsAreTwoRoutes: one key and one body at /test/refunds and at /live/refunds are
// two refunds, also where Fiber has mounted one app twice.
func TestTwoMountsAreTwoRoutes(t *testing.T) {
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
	idempotent := oncehttp.Middleware(engine, oncehttp.Config{Principal: account})
	app := fiber.New()
	for _, prefix := range []string{"/test", "/live"} {
		sub := fiber.New()
		sub.Post("/refunds", adaptor.HTTPHandler(idempotent(http.HandlerFunc(createRefund))))
		app.Use(prefix, sub)
	}
	post := func(target string) (body, replayed string) {
		r := httptest.NewRequest(http.MethodPost, target, strings.NewReader(`{"charge":"ch_1","amount":1000}`))
		r.Header.Set("Idempotency-Key", "k")
		r.Header.Set("X-Tenant", "acme")
		resp, err := app.Test(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusCreated {
			t.Errorf("%s: %d %s, %v", target, resp.StatusCode, b, err)
		}
		return string(b), resp.Header.Get("Idempotent-Replayed")
	}
	test, _ := post("/test/refunds")
	live, replayed := post("/live/refunds")
	if live == test || replayed != "" {
		t.Errorf("the live refund is answered with that of the test: %s", live)
	}
	if again, replayed := post("/test/refunds"); again != test || replayed != "true" {
		t.Errorf("the retry: %s", again)
	}
}
