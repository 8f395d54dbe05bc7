package limit_test

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/limit"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
)

// nowhere is where answers go that are not read.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header         { return n.header }
func (n nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (n nowhere) WriteHeader(int)             { clear(n.header) }

func BenchmarkMiddlewareOfALimit(b *testing.B) {
	nothing := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	w := nowhere{http.Header{}}
	r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "/", http.NoBody)
	if err != nil {
		b.Fatal(err)
	}
	run := func(name string, h http.Handler) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				h.ServeHTTP(w, r)
			}
		})
	}
	run("bare", nothing)
	run("admitted", limit.New(limit.Config{}).Middleware(nothing))
	run("tenants", limit.New(limit.Config{Tenant: func(*http.Request) string { return "acme" }}).Middleware(nothing))

	full := limit.New(limit.Config{Limit: 1, Queue: -1})
	leave, _ := full.Enter(r, nil)
	defer leave()
	run("refused", full.Middleware(nothing))
}

// What a gate costs a request that is executed.
func BenchmarkGateOfAnEngine(b *testing.B) {
	for name, gate := range map[string]oncehttp.Gate{"none": nil, "limiter": limit.New(limit.Config{})} {
		b.Run(name, func(b *testing.B) {
			engine := once.New(memstore.New(), once.Config{})
			h := oncehttp.Middleware(engine, oncehttp.Config{Principal: oncehttp.SharedPrincipal(), Gate: gate})(
				http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
			w := nowhere{http.Header{}}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "/", http.NoBody)
				if err != nil {
					b.Fatal(err)
				}
				r.Header["Idempotency-Key"] = []string{"k" + strconv.Itoa(i)}
				h.ServeHTTP(w, r)
			}
		})
	}
}
