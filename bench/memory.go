package main

import (
	"bytes"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
	"github.com/oncelib/once/store/upkeep"
)

// middleware is what the HTTP middleware costs when the store costs almost nothing.
type middleware struct {
	Time   verdict `json:"time_us"` // over the bare handler, for an executed request of 1 KiB
	Allocs verdict `json:"allocations"`
}

// cpuNanos is the measured time, garbage collection included: on a busy machine the wall clock also measures other processes.
const cpuNanos = "cpu-ns/op"

// liveHeap is the heap of a typical service. With an empty heap the garbage collector would run after every 4 MiB, a thousand requests, and dominate
// the result.
const liveHeap = 64 << 20

const (
	middlewareMicros = 6
	middlewareAllocs = 25
)

func (b *bench) middleware() (*middleware, error) {
	testing.Init()
	if err := flag.Set("test.benchtime", b.slice.String()); err != nil {
		return nil, err
	}
	live := make([]byte, liveHeap)
	defer runtime.KeepAlive(live)
	var micros, allocs []float64
	for range b.rounds/2 + 1 {
		bare, protected := testing.Benchmark(bareRequests), testing.Benchmark(protectedRequests)
		micros = append(micros, (protected.Extra[cpuNanos]-bare.Extra[cpuNanos])/1e3)
		allocs = append(allocs, float64(protected.AllocsPerOp()-bare.AllocsPerOp()))
	}
	return &middleware{
		Time:   absolute("time", micros, middlewareMicros),
		Allocs: absolute("allocations", allocs, middlewareAllocs),
	}, nil
}

func absolute(what string, values []float64, bar float64) verdict {
	v := verdict{What: what, Bar: bar, AtMost: true}
	v.Median, v.Min, v.Max = spread(values)
	return v.judged()
}

func (m *middleware) write(p printer) {
	p("\n## Middleware over memstore\n")
	p("An executed request of 1 KiB with an answer of 256 bytes, less the bare handler; CPU time, garbage collection included, in")
	p("a process that holds %d MiB.\n", liveHeap>>20)
	p("| more than bare | | bar | |")
	p("|---|---|---|---|")
	p("| µs of CPU per request | %s |", m.Time.cells())
	p("| allocations per request | %s |", m.Allocs.cells())
}

func bareRequests(b *testing.B) { serve(b, http.HandlerFunc(answer), nil) }

func protectedRequests(b *testing.B) {
	s := memstore.New()
	protect := oncehttp.Middleware(once.New(s, once.Config{Observer: once.Discard}), oncehttp.Config{Principal: oncehttp.SharedPrincipal(), Retain: time.Minute})
	serve(b, protect(http.HandlerFunc(answer)), s)
}

func answer(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(answerBody)
}

var answerBody = bytes.Repeat([]byte("y"), 256)

// serve sends requests that cost nothing to make except their keys, which are new every time, also for the bare handler: an engine remembers finished
// operations, and would look one up before it executes. s forgets them after every 256.
func serve(b *testing.B, h http.Handler, s *memstore.Store) {
	body := bytes.Repeat([]byte("x"), 1024)
	r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/charges", nil)
	r.Header.Set("Content-Type", "application/json")
	r.Pattern = "POST /charges"
	r.ContentLength = int64(len(body))
	key := make([]string, 1)
	r.Header["Idempotency-Key"] = key
	var stream reusable
	w := &sink{header: http.Header{}}
	b.ReportAllocs()
	began, _ := cpu{}.used()
	var swept time.Duration // time that is not part of a request
	for i := range b.N {
		if i%256 == 0 && s != nil {
			swept += forget(b, s)
		}
		clear(w.header)
		key[0] = once.NewKey()
		stream.Reset(body)
		r.Body = &stream
		h.ServeHTTP(w, r)
		if w.status != http.StatusCreated {
			b.Fatal(w.status)
		}
	}
	end, _ := cpu{}.used()
	b.ReportMetric(float64(end-began-swept)/float64(b.N), cpuNanos)
}

// forget deletes the stored operations, and returns the time that it took. Otherwise the table would grow with the number of requests, and so would
// the time of the garbage collector.
func forget(b *testing.B, s *memstore.Store) time.Duration {
	began, _ := cpu{}.used()
	s.Advance(time.Hour)
	if _, err := s.Sweep(b.Context(), upkeep.Sweep{Limit: 256}); err != nil {
		b.Fatal(err)
	}
	end, _ := cpu{}.used()
	return end - began
}

type reusable struct{ bytes.Reader }

func (*reusable) Close() error { return nil }

// sink is a ResponseWriter that costs nothing.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }
