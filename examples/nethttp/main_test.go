package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/oncetest"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/pgxstore"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func request(charge string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/refunds", strings.NewReader("charge="+charge))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("X-Tenant", "acme")
	return r
}

// TestOneRefund: whatever fails, breaks or dies, a refund is made once.
func TestOneRefund(t *testing.T) {
	dsn := testenv.NewDatabase(t)
	oncetest.HTTP(t, oncetest.Service{
		Start: func(p *oncetest.Process) http.Handler {
			cfg, err := pgxpool.ParseConfig(dsn)
			if err != nil {
				t.Fatal(err)
			}
			cfg.ConnConfig.DialFunc = p.Dial
			pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			if err := prepare(t.Context(), pool); err != nil {
				t.Fatal(err)
			}
			s := store.Store[pgx.Tx](pgxstore.New(pool, pgxstore.Config{}))
			return newServer(once.New(oncetest.Store(p, s), once.Config{Observer: once.Discard}))
		},
		Request: func() *http.Request { return request("ch_1") },
	})
}

// TestTryIt: the README says how the service answers.
func TestTryIt(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), testenv.NewDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := prepare(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	service := newServer(once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{Observer: once.Discard}))
	for _, try := range []struct {
		name, key, charge, tenant string
		status                    int
		says                      string
	}{
		{"the first", "k1", "ch_1", "acme", 201, "stored"},
		{"a retry", "k1", "ch_1", "acme", 201, "replayed"},
		{"another charge under its key", "k1", "ch_2", "acme", 422, ""},
		{"no key", "", "ch_1", "acme", 400, ""},
		{"no tenant", "k1", "ch_1", "", 401, ""},
		{"a 400 of the handler", "k2", "", "acme", 400, "stored"},
		{"its retry", "k2", "", "acme", 400, "replayed"},
		{"its body is corrected", "k2", "ch_2", "acme", 422, ""},
		{"with a new key", "k3", "ch_2", "acme", 201, "stored"},
		{"a 500, of a text that PostgreSQL refuses", "k4", "%00", "acme", 500, ""},
		{"its body is corrected", "k4", "ch_3", "acme", 201, "stored"},
	} {
		r := request(try.charge)
		r.Header.Set("X-Tenant", try.tenant)
		r.Header.Set("Idempotency-Key", try.key)
		w := httptest.NewRecorder()
		service.ServeHTTP(w, r)
		if w.Code != try.status || w.Header().Get("Idempotency-Status") != try.says {
			t.Errorf("%s: %d %q, not %d %q: %s", try.name, w.Code, w.Header().Get("Idempotency-Status"), try.status, try.says, w.Body)
		}
	}
	var refunds int
	if err := pool.QueryRow(t.Context(), "select count(*) from refund").Scan(&refunds); err != nil || refunds != 3 {
		t.Errorf("%d refunds of 3, %v", refunds, err)
	}
}
