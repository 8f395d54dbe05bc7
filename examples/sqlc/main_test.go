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
)

func TestMain(m *testing.M) { testenv.Main(m) }

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
			s, err := prepare(t.Context(), pool)
			if err != nil {
				t.Fatal(err)
			}
			return newServer(once.New(oncetest.Store(p, store.Store[pgx.Tx](s)), once.Config{Observer: once.Discard}))
		},
		Request: func() *http.Request {
			r := httptest.NewRequest(http.MethodPost, "/refunds", strings.NewReader(`{"charge":"ch_1","amount":1000}`))
			r.Header.Set("X-Tenant", "acme")
			return r
		},
	})
}
