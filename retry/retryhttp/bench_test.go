package retryhttp_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/retryhttp"
)

// BenchmarkRoundTrip compares a request with and without this package, on top of a base
// that does nothing and of a server on loopback. "retry" makes two round trips.
func BenchmarkRoundTrip(b *testing.B) {
	text := strings.Repeat("x", 1<<10)
	failing := 0
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if failing++; r.URL.Path == "/retry" && failing%2 == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	server := httptest.NewServer(handler)
	defer server.Close()
	for _, base := range []struct {
		name string
		rt   http.RoundTripper
	}{{"stub", nothing{&failing}}, {"loopback", &http.Transport{}}} {
		for _, client := range []struct {
			name string
			rt   http.RoundTripper
		}{{"bare", base.rt}, {"once", &retryhttp.Transport{Base: base.rt, Policy: retry.Policy{Base: -1, Budget: &retry.Budget{Percent: 100}}}}} {
			for _, c := range []struct{ name, method, path string }{
				{"GET", http.MethodGet, "/"}, {"POST", http.MethodPost, "/"}, {"POST/retry", http.MethodPost, "/retry"},
			} {
				if client.name == "bare" && c.path == "/retry" {
					continue
				}
				b.Run(base.name+"/"+client.name+"/"+c.name, func(b *testing.B) {
					h := &http.Client{Transport: client.rt}
					failing = 0
					b.ReportAllocs()
					for b.Loop() {
						var body io.Reader
						if c.method == http.MethodPost {
							body = strings.NewReader(text)
						}
						r, _ := http.NewRequestWithContext(b.Context(), c.method, server.URL+c.path, body)
						if body != nil {
							r.Header.Set("Idempotency-Key", "k")
						}
						resp, err := h.Do(r)
						if err != nil || resp.StatusCode != http.StatusOK {
							b.Fatal(resp, err)
						}
						_, _ = io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
				})
			}
		}
	}
}

// nothing is a base that answers at once.
type nothing struct{ n *int }

func (s nothing) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		r.Body.Close()
	}
	status := http.StatusOK
	if *s.n++; r.URL.Path == "/retry" && *s.n%2 == 1 {
		status = http.StatusServiceUnavailable
	}
	return &http.Response{StatusCode: status, Header: make(http.Header), Body: http.NoBody, Request: r}, nil
}
