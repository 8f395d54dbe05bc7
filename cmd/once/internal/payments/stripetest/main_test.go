package stripetest_test

import (
	"context"
	"database/sql"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // driver "pgx"
	stripe "github.com/stripe/stripe-go/v85"
	_ "modernc.org/sqlite" // driver "sqlite"

	"github.com/oncelib/once/cmd/once/internal/payments"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const account = "sk_test_acme"

// service is a running service, what its clients need, and its database.
type service struct {
	*testing.T
	proxy *faultnet.Proxy
	db    *sql.DB

	mu   sync.Mutex
	keys map[string]int // how often each has come
}

// onBoth runs test with a service in this process.
func onBoth(t *testing.T, cfg payments.Config, test func(g *service)) {
	t.Helper()
	onBothOf(t, func(g *service, dsn string) string { return g.serve(dsn, cfg) }, test)
}

// onBothOf runs test with what serve has started on a database; it returns the address.
func onBothOf(t *testing.T, serve func(g *service, dsn string) string, test func(g *service)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "payments.db")
		test(start(t, serve, "sqlite:"+file, "sqlite", "file:"+file+"?_pragma=busy_timeout(10000)"))
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		dsn := testenv.NewDatabase(t)
		test(start(t, serve, dsn, "pgx", dsn))
	})
}

func start(t *testing.T, serve func(g *service, dsn string) string, dsn, driver, plain string) *service {
	t.Helper()
	g := &service{T: t, keys: map[string]int{}}
	var err error
	g.proxy, err = faultnet.Listen(serve(g, dsn))
	must(t, err)
	g.db, err = sql.Open(driver, plain)
	must(t, err)
	t.Cleanup(func() {
		_ = g.proxy.Close()
		_ = g.db.Close()
	})
	return g
}

// serve serves in this process.
func (g *service) serve(dsn string, cfg payments.Config) string {
	g.Helper()
	db, err := payments.Open(g.Context(), dsn)
	must(g.T, err)
	cfg.Dialect = payments.StripeV1
	cfg.Log = slog.New(slog.NewTextHandler(g.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	server := httptest.NewServer(g.counting(payments.NewServer(db, cfg)))
	g.Cleanup(func() {
		server.Close()
		must(g.T, db.Close())
	})
	return strings.TrimPrefix(server.URL, "http://")
}

// counting counts how often each key comes.
func (g *service) counting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		g.keys[r.Header.Get("Idempotency-Key")]++
		g.mu.Unlock()
		next.ServeHTTP(w, r)
	})
}

// client is Stripe's, with a network of ours under it.
func (g *service) client(key string) *stripe.Client {
	return g.over(key, &http.Transport{DialContext: g.proxy.DialContext})
}

func (g *service) over(key string, transport *http.Transport) *stripe.Client {
	g.Cleanup(transport.CloseIdleConnections)
	return stripe.NewClient(key, stripe.WithBackends(stripe.NewBackendsWithConfig(&stripe.BackendConfig{
		URL:               stripe.String("http://payments.example"),
		HTTPClient:        &http.Client{Transport: transport, Timeout: time.Minute},
		MaxNetworkRetries: stripe.Int64(8),
		LeveledLogger:     &stripe.LeveledLogger{Level: stripe.LevelNull},
	})))
}

// repeated counts the requests that came again under a key.
func (g *service) repeated() (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for key, times := range g.keys {
		if key != "" {
			n += times - 1
		}
	}
	return n
}

// count asks the database.
func (g *service) count(query string) (n int) {
	g.Helper()
	must(g.T, g.db.QueryRowContext(context.Background(), query).Scan(&n))
	return n
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
