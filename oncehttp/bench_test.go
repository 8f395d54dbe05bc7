package oncehttp_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
)

// sink is a ResponseWriter that costs nothing, so that what is measured is ours.
type sink struct {
	header http.Header
	status int
	n      int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(p []byte) (int, error) { s.n += len(p); return len(p), nil }

// request is a POST of 1 KiB whose body and key can be renewed without a new request.
type request struct {
	*http.Request
	body  bytes.Reader
	bytes []byte
	keys  []string
}

func (r *request) Close() error               { return nil }
func (r *request) Read(p []byte) (int, error) { return r.body.Read(p) }
func (r *request) next(key string) *http.Request {
	r.body.Reset(r.bytes)
	r.Body = r
	r.keys[0] = key
	return r.Request
}

func newRequest() *request {
	r := &request{bytes: bytes.Repeat([]byte("x"), 1024), keys: make([]string, 1)}
	r.Request = httptest.NewRequest(http.MethodPost, "/refunds", nil)
	r.ContentLength = int64(len(r.bytes))
	r.Pattern = "POST /refunds"
	r.Header["Content-Type"] = []string{"application/json"}
	r.Header["Idempotency-Key"] = r.keys
	return r
}

var answer = bytes.Repeat([]byte("y"), 256)

func benchHandler(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Location", "/refunds/1")
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(answer)
}

func BenchmarkBareHandler(b *testing.B) {
	r, w := newRequest(), &sink{header: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		clear(w.header)
		benchHandler(w, r.next("k"))
	}
}

func benchProtected(b *testing.B, retain time.Duration, key func(i int) string) {
	s := memstore.New()
	h := oncehttp.Middleware(once.New(s, once.Config{Observer: once.Discard}), oncehttp.Config{
		Principal: oncehttp.SharedPrincipal(), Retain: retain,
	})(http.HandlerFunc(benchHandler))
	r, w := newRequest(), &sink{header: http.Header{}}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%4096 == 0 {
			s.Advance(time.Hour) // all keys have expired: the table does not grow
		}
		clear(w.header)
		h.ServeHTTP(w, r.next(key(i)))
		if w.status != http.StatusCreated {
			b.Fatal(w.status)
		}
	}
}

func BenchmarkExecutedRequest(b *testing.B) {
	keys := make([]string, 4096)
	for i := range keys {
		keys[i] = "0190a5b8-7c3e-7def-8abc-" + strconv.Itoa(100000000000+i)
	}
	benchProtected(b, time.Minute, func(i int) string { return keys[i%len(keys)] })
}

func BenchmarkReplayedRequest(b *testing.B) {
	benchProtected(b, 10000*time.Hour, func(int) string { return "k" })
}

// TestAllocationsOfTheMiddleware: few of them are what makes the middleware cheap.
func TestAllocationsOfTheMiddleware(t *testing.T) {
	h := oncehttp.Middleware(once.New(memstore.New(), once.Config{Observer: once.Discard}), oncehttp.Config{Principal: oncehttp.SharedPrincipal()})(http.HandlerFunc(benchHandler))
	r, w := newRequest(), &sink{header: http.Header{}}
	count := func(h http.Handler) float64 {
		return testing.AllocsPerRun(100, func() {
			clear(w.header)
			h.ServeHTTP(w, r.next(once.NewKey()))
		})
	}
	if more := count(h) - count(http.HandlerFunc(benchHandler)); more > 20 {
		t.Errorf("an executed request makes %v allocations more than the bare handler, want at most 20", more)
	}
}
