package payments_test

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/oncelib/once/cmd/once/internal/payments"
	"github.com/oncelib/once/internal/testenv"
)

// TestDatabaseDownIs503: without a database there is a 503, and outside of the keys no word of them.
func TestDatabaseDownIs503(t *testing.T) {
	t.Parallel()
	for name, dsn := range map[string]string{
		"SQLite":     "sqlite:" + filepath.Join(t.TempDir(), "payments.db"),
		"PostgreSQL": testenv.NewDatabase(t),
	} {
		for _, unsafe := range []bool{false, true} {
			db, err := payments.Open(context.Background(), dsn)
			if err != nil {
				t.Fatal(err)
			}
			server := httptest.NewServer(payments.NewServer(db, payments.Config{Unsafe: unsafe, Log: slog.New(slog.DiscardHandler)}))
			defer server.Close()
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			s := service{t, server.URL, new(atomic.Int64)}
			const ada, charge = `{"name":"Ada","email":"a@example.org"}`, `{"amount":1,"currency":"EUR","customer":"a"}`
			for what, r := range map[string]reply{
				"healthz": s.get("", "/healthz"),
				"charge":  s.get("acme", "/charges/ch_1"),
				"ledger":  s.get("acme", "/ledger?charge_id=ch_1"),
				"PUT":     s.send("acme", "PUT", "/customers/ada", ada, "If-None-Match: *"),
				"POST":    s.post("acme", "/charges", charge),
			} {
				if r.status != 503 || r.header.Get("Retry-After") == "" || r.text("code") != "TRANSIENT.store_unavailable" || r.text("safe_new_key") != "false" {
					t.Errorf("%s, %s, unsafe %t: %d %v %s", name, what, unsafe, r.status, r.header, r.body)
				}
				if keyed := what == "POST" && !unsafe; !keyed && (strings.Contains(r.text("detail"), "key") || strings.Contains(r.text("detail"), "applied")) {
					t.Errorf("%s, %s: speaks of keys: %s", name, what, r.body)
				}
			}
		}
	}
}
