package payments_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/oncelib/once/cmd/once/internal/payments"
	"github.com/oncelib/once/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// service is a server on a database of its own, and a client of it.
type service struct {
	testing.TB
	url string
	n   *atomic.Int64 // of keys
}

// onEach runs test on every database.
func onEach(t *testing.T, cfg payments.Config, test func(t *testing.T, s service)) {
	t.Helper()
	for name, dsn := range map[string]func(testing.TB) string{
		"SQLite":     func(tb testing.TB) string { return "sqlite:" + filepath.Join(tb.TempDir(), "payments.db") },
		"PostgreSQL": testenv.NewDatabase,
		"MariaDB": func(tb testing.TB) string {
			_, name, _ := strings.Cut(testenv.NewMariaDB(tb), "/")
			return testenv.SharedMariaDB(tb).URL(name)
		},
		"MySQL": func(tb testing.TB) string {
			_, name, _ := strings.Cut(testenv.NewMySQL(tb), "/")
			return testenv.SharedMySQL(tb).URL(name)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, start(t, dsn(t), cfg))
		})
	}
}

func start(tb testing.TB, dsn string, cfg payments.Config) service {
	tb.Helper()
	db, err := payments.Open(context.Background(), dsn)
	if err != nil {
		tb.Fatal(err)
	}
	cfg.Log = slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	server := httptest.NewServer(payments.NewServer(db, cfg))
	tb.Cleanup(func() {
		server.Close()
		if err := db.Close(); err != nil {
			tb.Error(err)
		}
	})
	return service{tb, server.URL, new(atomic.Int64)}
}

// reply is an answer of the service.
type reply struct {
	status int
	header http.Header
	body   string
}

// json returns a member of the body, nil if there is none.
func (r reply) json(name string) any {
	var members map[string]any
	d := json.NewDecoder(strings.NewReader(r.body))
	d.UseNumber()
	_ = d.Decode(&members)
	return members[name]
}

func (r reply) text(name string) string { return fmt.Sprint(r.json(name)) }

// send sends a request of tenant. Header lines are "Name: value".
func (s service) send(tenant, method, path, body string, header ...string) reply {
	s.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	if tenant != "" {
		req.Header.Set("Authorization", "Bearer "+tenant)
	}
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Add(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		s.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, string(got)}
}

func (s service) get(tenant, path string) reply { s.Helper(); return s.send(tenant, "GET", path, "") }

// post sends a request for the first time.
func (s service) post(tenant, path, body string) reply {
	s.Helper()
	return s.postAs(tenant, fmt.Sprintf("key-%d", s.n.Add(1)), path, body)
}

func (s service) postAs(tenant, key, path, body string) reply {
	s.Helper()
	return s.send(tenant, "POST", path, body, "Idempotency-Key: "+key)
}

// charge makes a charge and returns its id.
func (s service) charge(tenant string, amount int64) string {
	s.Helper()
	r := s.post(tenant, "/charges", fmt.Sprintf(`{"amount":%d,"currency":"EUR","customer":"ada"}`, amount))
	s.want(r, 201)
	return r.text("id")
}

func (s service) want(r reply, status int) {
	s.Helper()
	if r.status != status {
		s.Fatalf("status %d, want %d: %s", r.status, status, r.body)
	}
}

// books fails unless debits and credits are equal, for the charge and for each of
// its refunds, and returns the number of entries.
func (s service) books(tenant, charge string) int {
	s.Helper()
	r := s.get(tenant, "/ledger?charge_id="+charge)
	s.want(r, 200)
	var ledger struct{ Entries []payments.Entry }
	d := json.NewDecoder(bytes.NewReader([]byte(r.body)))
	if err := d.Decode(&ledger); err != nil {
		s.Fatal(err)
	}
	sum := map[string]int64{}
	for _, e := range ledger.Entries {
		sign := map[string]int64{"debit": 1, "credit": -1}[e.Direction]
		sum[e.RefundID] += sign * e.Amount
		if sign == 0 || e.ChargeID != charge {
			s.Errorf("entry %+v", e)
		}
	}
	for refund, rest := range sum {
		if rest != 0 {
			s.Errorf("refund %s: debits and credits differ by %d", refund, rest)
		}
	}
	return len(ledger.Entries)
}
