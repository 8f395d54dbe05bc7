package main

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/oncetest"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/pgxstore"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestOneRefundAtTheProvider: whatever fails, breaks or dies, the provider makes one refund, the table has one row, and the outbox one event.
func TestOneRefundAtTheProvider(t *testing.T) {
	dsn := testenv.NewDatabase(t) // in your project: the DSN of an empty database, for example from the environment
	provider := oncetest.NewProvider(t, oncetest.ProviderConfig{Dedupes: true, Answer: func(n int, _ *http.Request, _ []byte) (int, []byte) {
		return http.StatusOK, fmt.Appendf(nil, `{"id":"re_%d"}`, n)
	}})
	oncetest.HTTP(t, oncetest.Service{
		Start: func(p *oncetest.Process) http.Handler {
			cfg, err := pgxpool.ParseConfig(dsn)
			if err != nil {
				t.Fatal(err)
			}
			cfg.ConnConfig.DialFunc = p.Dial // the test breaks this connection
			pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			if err := prepare(t.Context(), pool); err != nil {
				t.Fatal(err)
			}
			encrypter, err := once.NewEncrypter(make([]byte, 32))
			if err != nil {
				t.Fatal(err)
			}
			pg := pgxstore.New(pool, pgxstore.Config{})
			under := oncetest.Store(p, store.Store[pgx.Tx](pg))
			s := &service{store: under, box: outbox.New(pg, outbox.Config{}), provider: "http://provider", client: newClient(p.Transport(provider))}
			return s.handler(once.New(lease.New(under, lease.Config{}), once.Config{
				Encrypter: encrypter, Observer: once.Log(slog.New(slog.NewTextHandler(t.Output(), nil))),
			}))
		},
		Request: func() *http.Request {
			r := httptest.NewRequest(http.MethodPost, "/refunds", strings.NewReader(`{"charge":"ch_1","amount":1000}`))
			r.Header.Set("X-Tenant", "acme")
			return r
		},
	})
}
