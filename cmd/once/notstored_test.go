package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/attemptlog"
	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/sqlstore"
)

// TestKeysShowNotStored: a business 409 is shown as an answer that was not stored, with its
// status, and what is kept for ever has no end.
func TestKeysShowNotStored(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onEach(t, func(t *testing.T, url string) {
		run(t, "migrate", "up", "--db", url).want(t, 0)
		src, err := cli.ParseSource(url)
		if err != nil {
			t.Fatal(err)
		}
		db, err := sqlstore.Open(src.Driver, src.DSN)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		s, err := sqlstore.New(t.Context(), db, sqlstore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		attempts := attemptlog.New(s, attemptlog.Config{})
		engine := once.New(s, once.Config{Observer: attempts})
		cfg := oncehttp.Config{Principal: oncehttp.SharedPrincipal(), Retain: once.Forever}
		h := oncehttp.Middleware(engine, cfg)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if key, _ := oncehttp.Key(r.Context()); key == "conflict" {
				w.WriteHeader(http.StatusConflict)
			}
		}))
		for _, key := range []string{"conflict", "forever"} {
			r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
			r.Header.Set("Idempotency-Key", key)
			h.ServeHTTP(httptest.NewRecorder(), r)
		}
		if err := attempts.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Fatal(err)
		}
		o := run(t, "keys", "show", "conflict", "--db", url).want(t, 3)
		for _, s := range []string{"last: not_stored (not applied)", "HTTP 409"} {
			if !strings.Contains(o.stdout, s) {
				t.Errorf("it does not say %q:\n%s%s", s, o.stdout, o.stderr)
			}
		}
		if strings.Contains(o.stdout, "  failed") {
			t.Errorf("it says that something has failed:\n%s", o.stdout)
		}
		o = run(t, "keys", "show", "forever", "--db", url).want(t, 0)
		if !strings.Contains(o.stdout, "never: the record is kept for ever") {
			t.Errorf("it does not say that there is no end:\n%s", o.stdout)
		}
	})
}
