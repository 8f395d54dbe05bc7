package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncetest"
)

// TestOneRefund: whatever fails, breaks or dies, a refund is made once.
func TestOneRefund(t *testing.T) {
	file := "file:" + filepath.Join(t.TempDir(), "refunds.db")
	oncetest.HTTP(t, oncetest.Service{
		Start: func(p *oncetest.Process) http.Handler {
			s, err := prepare(t.Context(), p.Open("sqlite", file+pragmas))
			if err != nil {
				t.Fatal(err)
			}
			return newServer(once.New(oncetest.Store(p, s), once.Config{Observer: once.Discard}))
		},
		Request: func() *http.Request {
			r := httptest.NewRequest(http.MethodPost, "/refunds", strings.NewReader(`{"charge":"ch_1","amount":1000}`))
			r.Header.Set("X-Tenant", "acme")
			r.Header.Set("Content-Type", "application/json")
			return r
		},
	})
}
