package retryhttp_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/retryhttp"
	"github.com/oncelib/once/store/memstore"
)

// A host learns which attempt it gets, and for how long its answer is waited for, when it
// has shown that it understands, or when we say so.
func TestAttemptsAreAnnouncedToPeers(t *testing.T) {
	ours := oncehttp.Middleware(once.New(memstore.New(), once.Config{}), oncehttp.Config{Principal: oncehttp.SharedPrincipal()})(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, c := range []struct {
		name     string
		host     string
		announce bool
		header   []string
		handler  http.Handler
		want     []string // Once-Attempt of two calls
	}{
		{"ours", "announce-ours.example", false, nil, ours, []string{"", "1"}},
		{"another one", "announce-another.example", false, nil, http.NotFoundHandler(), []string{"", ""}},
		{"as we say", "announce-told.example", true, nil, http.NotFoundHandler(), []string{"1", "1"}},
		{"as the caller says", "announce-caller.example", false, []string{"Once-Attempt", "7", "X-Request-Timeout", "9000"}, http.NotFoundHandler(), []string{"7", "7"}},
	} {
		s := &served{base: func(_ int, r *http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			c.handler.ServeHTTP(w, r)
			return w.Result(), nil
		}}
		rt := &retryhttp.Transport{Base: s, Dialect: retryhttp.Dialect{Announce: c.announce}, Policy: retry.Policy{Budget: &retry.Budget{}}}
		for _, key := range []string{"a", "b"} {
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+c.host, strings.NewReader("body"))
			r.Header.Set("Idempotency-Key", key)
			for i := 0; i+1 < len(c.header); i += 2 {
				r.Header.Set(c.header[i], c.header[i+1])
			}
			resp, err := rt.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
		}
		if got := s.header("Once-Attempt"); !slices.Equal(got, c.want) {
			t.Errorf("%s: Once-Attempt %q, want %q", c.name, got, c.want)
		}
		for i, timeout := range s.header("X-Request-Timeout") {
			if (timeout != "") != (c.want[i] != "") {
				t.Errorf("%s, request %d: X-Request-Timeout %q", c.name, i+1, timeout)
			}
		}
	}
}
