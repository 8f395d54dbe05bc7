package gateway_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/gateway"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
)

func benchFront(b *testing.B, kind string) {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(201)
		_, _ = io.WriteString(w, `{"id":"ch_1","status":"succeeded"}`)
	}))
	defer service.Close()
	u, _ := url.Parse(service.URL)
	var h http.Handler
	switch kind {
	case "bare":
		h = &httputil.ReverseProxy{Transport: &http.Transport{MaxIdleConnsPerHost: 256}, Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(u); p.SetXForwarded() }}
	default:
		cfg := gateway.Config{Name: "s", Upstream: u, Principal: oncehttp.SharedPrincipal(), Receipts: &memory{}, Engine: once.Config{Observer: once.Discard}, Routes: []gateway.Route{{Pattern: "POST /pay"}}}
		if kind == "store" {
			cfg.Store = lease.New(memstore.New(), lease.Config{})
		}
		h, _ = gateway.New(cfg)
	}
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest(http.MethodPost, "/pay", strings.NewReader(`{"amount": 100, "currency": "eur"}`))
		r.Header.Set("Idempotency-Key", once.NewKey())
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != 201 {
			b.Fatal(w.Code, w.Body)
		}
	}
}

func BenchmarkBare(b *testing.B)  { benchFront(b, "bare") }
func BenchmarkAlone(b *testing.B) { benchFront(b, "alone") }
func BenchmarkStore(b *testing.B) { benchFront(b, "store") }
