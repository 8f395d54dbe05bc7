package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/oncelib/once/gateway"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
)

func ExampleNew() {
	s := memstore.New()
	g, err := gateway.New(gateway.Config{
		Name:      "payments",
		Upstream:  &url.URL{Scheme: "http", Host: "127.0.0.1:3000"},
		Principal: gateway.HeaderPrincipal("X-Tenant", netip.MustParsePrefix("10.0.0.0/8")),
		Store:     lease.New(s, lease.Config{TTL: 15 * time.Second}),
		Routes:    []gateway.Route{{Pattern: "POST /payments", Wait: 5 * time.Second}},
	})
	if err != nil {
		panic(err)
	}
	defer g.Close()
	// Output:
}

// A service that knows nothing of keys gets each of them once.
func ExampleGateway() {
	charges := 0
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		charges++
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, "charge %d", charges)
	}))
	defer service.Close()
	upstream, _ := url.Parse(service.URL)
	g, err := gateway.New(gateway.Config{
		Name: "payments", Upstream: upstream, Principal: oncehttp.SharedPrincipal(), Store: lease.New(memstore.New(), lease.Config{}),
		Routes: []gateway.Route{{Pattern: "POST /payments"}},
	})
	if err != nil {
		panic(err)
	}
	defer g.Close()
	for range 2 {
		r := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader("100"))
		r.Header.Set("Idempotency-Key", "order-7")
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		body, _ := io.ReadAll(w.Body)
		fmt.Println(w.Code, string(body), w.Header().Get("Idempotency-Status"))
	}
	// Output:
	// 201 charge 1 stored
	// 201 charge 1 replayed
}
