package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
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

const body = `{"charge":"ch_1","amount":1000}`

// TestOneRefund: whatever fails, breaks or dies, the service with once makes a refund once.
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
			return newServer(once.New(oncetest.Store(p, store.Store[pgx.Tx](pgxstore.New(pool, pgxstore.Config{}))), once.Config{Observer: once.Discard}))
		},
		Request: func() *http.Request {
			r := httptest.NewRequest(http.MethodPost, "/refunds", strings.NewReader(body))
			r.Header.Set("X-Tenant", "acme")
			return r
		},
	})
}

// TestBesideTheOldService: processes of both kinds get each request, many times and at the same time. Each refund is made once, and all get one
// answer.
func TestBesideTheOldService(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), testenv.NewDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := prepare(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	old := httptest.NewServer(oldServer(pool))
	defer old.Close()
	fresh := httptest.NewServer(newServer(once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{Observer: once.Discard})))
	defer fresh.Close()

	const keys = 50
	for n := range keys {
		key := fmt.Sprint("key-", n)
		order := []string{old.URL, fresh.URL, old.URL, fresh.URL}
		answers := make([]string, len(order))
		if n%3 > 0 { // one of them comes first, and alone
			answers[n%3] = send(t, order[n%3], key, body)
		}
		var group sync.WaitGroup
		for i, url := range order {
			group.Go(func() { answers[i] = send(t, url, key, body) })
		}
		group.Wait()
		for i, a := range answers {
			if a != answers[0] || !strings.HasPrefix(a, "201 ") {
				t.Errorf("%s of %s: %q, and %q of %s", key, order[i], a, answers[0], order[0])
			}
		}
		if a := send(t, fresh.URL, key, `{"charge":"ch_1","amount":2}`); !strings.HasPrefix(a, "422 ") {
			t.Errorf("another request with %s: %q", key, a)
		}
	}
	var refunds int
	if err := pool.QueryRow(t.Context(), "select count(*) from refund").Scan(&refunds); err != nil || refunds != keys {
		t.Errorf("%d refunds of %d, %v", refunds, keys, err)
	}
}

// TestOldKeysAreReplayed by a service that has never seen them, and by itself when the old table is gone.
func TestOldKeysAreReplayed(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), testenv.NewDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := prepare(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	old := httptest.NewServer(oldServer(pool))
	defer old.Close()
	want := send(t, old.URL, "k", body)
	fresh := httptest.NewServer(newServer(once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{Observer: once.Discard})))
	defer fresh.Close()
	if got := send(t, fresh.URL, "k", `{"charge":"ch_1","amount":2}`); !strings.HasPrefix(got, "409 ") {
		t.Errorf("another request with the key: %q", got)
	}
	for _, statement := range []string{"select 1", "drop table idempotency_key"} {
		if _, err := pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
		if got := send(t, fresh.URL, "k", body); got != want {
			t.Errorf("after %q: %q, want %q", statement, got, want)
		}
	}
}

// TestOtherHeader: the middleware takes keys from other headers than the old service did. Each is a key of its own in the old table as well.
func TestOtherHeader(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), testenv.NewDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := prepare(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	service := newServer(once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{Observer: once.Discard}))
	for _, key := range []string{"a", "b"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/refunds", strings.NewReader(body))
		r.Header.Set("X-Idempotency-Key", key)
		r.Header.Set("X-Tenant", "acme")
		w := httptest.NewRecorder()
		if service.ServeHTTP(w, r); w.Code != http.StatusCreated {
			t.Errorf("%s: %d %s", key, w.Code, w.Body)
		}
	}
	var refunds int
	if err := pool.QueryRow(t.Context(), "select count(*) from refund").Scan(&refunds); err != nil || refunds != 2 {
		t.Errorf("%d refunds of 2, %v", refunds, err)
	}
}

// send returns status and body of an answer.
func send(t *testing.T, url, key, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/refunds", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return ""
	}
	req.Header.Set("Idempotency-Key", key)
	req.Header.Set("X-Tenant", "acme")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return fmt.Sprint(resp.StatusCode, " ", string(b))
}
