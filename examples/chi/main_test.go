package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncetest"
	"github.com/oncelib/once/store/sqlstore"
)

// TestOneRefund: whatever fails, breaks or dies, a refund is made once.
func TestOneRefund(t *testing.T) {
	file := "file:" + filepath.Join(t.TempDir(), "refunds.db")
	oncetest.HTTP(t, oncetest.Service{
		Start: func(p *oncetest.Process) http.Handler { // as main does, once for each life of the process
			s, err := prepare(t.Context(), p.Open("sqlite", file+pragmas))
			if err != nil {
				t.Fatal(err)
			}
			return newServer(once.New(oncetest.Store(p, s), once.Config{Observer: once.Discard}))
		},
		Request: func() *http.Request {
			r := httptest.NewRequest(http.MethodPost, "/refunds", strings.NewReader(`{"charge":"ch_1","amount":1000}`))
			r.Header.Set("X-Tenant", "acme")
			return r
		},
	})
}

// TestWithoutMiddleware: a handler alone, in a transaction that is rolled back.
func TestWithoutMiddleware(t *testing.T) {
	db, err := sqlstore.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "refunds.db")+pragmas)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := prepare(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	r := httptest.NewRequest(http.MethodPost, "/refunds", strings.NewReader(`{"charge":"ch_1","amount":1000}`))
	w := httptest.NewRecorder()
	createRefund(w, r.WithContext(oncetest.WithTx(t, t.Context(), tx)))
	var n int
	if err := tx.QueryRowContext(t.Context(), "select count(*) from refund").Scan(&n); err != nil || n != 1 || w.Code != http.StatusCreated {
		t.Errorf("%d, %d refunds, %v", w.Code, n, err)
	}
}
