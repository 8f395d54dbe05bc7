package retryhttp_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/retryhttp"
	"github.com/oncelib/once/store/memstore"
)

// A 409 to a request with a key is asked again, with the same key, where the server says
// that this helps. All others are final.
func TestConflictsThatAreAskedAgain(t *testing.T) {
	const problem, plain = "application/problem+json", "application/json; charset=utf-8"
	for _, c := range []struct {
		name      string
		method    string
		key       string
		mediaType string
		body      string
		after     string
		sent      int
	}{
		{"bare", http.MethodPost, "k", "", "", "", 1},
		{"Retry-After", http.MethodPost, "k", "", "", "1", 2},
		{"Retry-After: 0", http.MethodPost, "k", "", "", "0", 2},
		{"Retry-After in the past", http.MethodPost, "k", "", "", "Sat, 21 Nov 1998 11:00:00 GMT", 2},
		{"Retry-After that names no time", http.MethodPost, "k", "", "", "soon", 1},
		{"Retry-After: 0, without a key", http.MethodPost, "", "", "", "0", 1},
		{"retryable", http.MethodPost, "k", problem, `{"code":"LOCKED","retryable":true}`, "", 2},
		{"retryable, in any JSON", http.MethodPost, "k", plain, `{"retryable":true}`, "", 2},
		{"both", http.MethodPost, "k", problem, `{"retryable":true}`, "1", 2},
		{"not retryable, whatever the header", http.MethodPost, "k", problem, `{"retryable":false}`, "1", 1},
		{"not quite retryable", http.MethodPost, "k", problem, `{"retryable":"true"}`, "", 1},
		{"said in a text", http.MethodPost, "k", "text/plain", `{"retryable":true}`, "", 1},
		{"by a method without a key", http.MethodPut, "", "", "", "1", 1},
		{"without a key", http.MethodPost, "", problem, `{"retryable":true}`, "1", 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &served{base: func(n int, _ *http.Request) (*http.Response, error) {
				if n > 1 {
					return answer(200), nil
				}
				resp := answer(409, "Content-Type", c.mediaType)
				if c.after != "" {
					resp.Header.Set("Retry-After", c.after)
				}
				resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader(c.body)), int64(len(c.body))
				return resp, nil
			}}
			b := &retry.Budget{}
			r, _ := http.NewRequestWithContext(t.Context(), c.method, "http://service.example", strings.NewReader("body"))
			if c.key != "" {
				r.Header.Set("Idempotency-Key", c.key)
			}
			resp, err := (&retryhttp.Transport{Base: s, Policy: retry.Policy{Budget: b}}).RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if len(s.requests()) != c.sent || c.sent == 2 && (b.State().Left != 9.8 || !slices.Equal(s.header("Idempotency-Key"), []string{"k", "k"})) {
				t.Errorf("%s: sent %d with keys %q, want %d; %+v", c.name, len(s.requests()), s.header("Idempotency-Key"), c.sent, b.State())
			}
			if body, _ := io.ReadAll(resp.Body); resp.StatusCode == http.StatusConflict && string(body) != c.body {
				t.Errorf("%s: of the answer %q is left", c.name, body)
			}
		})
	}
}

// TestMisdirectedIsAskedAgain: a 421 is asked again if its problem document says that the regions of a service do not yet agree. Any other 421 is final.
func TestMisdirectedIsAskedAgain(t *testing.T) {
	for _, c := range []struct {
		name   string
		header []string
		key    string
		body   string
		sent   int
	}{
		{"of package home", nil, "k", `{"code":"TRANSIENT.home_elsewhere","retryable":true}`, 2},
		{"without a key", nil, "", `{"code":"TRANSIENT.home_elsewhere","retryable":true}`, 1},
		{"that passes, but is replayed", []string{"Idempotent-Replayed", "true"}, "k", `{"code":"TRANSIENT.home_elsewhere","retryable":true}`, 1},
		{"not retryable", nil, "k", `{"code":"TRANSIENT.home_elsewhere","retryable":false}`, 1},
		{"with another code", nil, "k", `{"code":"LOCKED","retryable":true}`, 1},
		{"bare", nil, "k", "", 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &served{base: func(n int, _ *http.Request) (*http.Response, error) {
				if n > 1 {
					return answer(200), nil
				}
				resp := answer(421, append([]string{"Content-Type", "application/problem+json", "Retry-After", "1"}, c.header...)...)
				resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader(c.body)), int64(len(c.body))
				return resp, nil
			}}
			var header []string
			if c.key != "" {
				header = []string{"Idempotency-Key", c.key}
			}
			resp, err := post(t.Context(), &retryhttp.Transport{Base: s}, header...)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if want := []int{421, 200}[c.sent-1]; len(s.requests()) != c.sent || resp.StatusCode != want {
				t.Errorf("%s: sent %d times, and the status is %d, want %d times and %d", c.name, len(s.requests()), resp.StatusCode, c.sent, want)
			}
		})
	}
}

// Keys are sent as they are, or in quotation marks for a server that insists on them. One
// in the header is the caller's and not changed.
func TestQuotedKeys(t *testing.T) {
	engine := once.New(memstore.New(), once.Config{})
	preset := oncehttp.DefaultPreset()
	preset.QuotedKeys = true
	strict := oncehttp.Middleware(engine, oncehttp.Config{Principal: oncehttp.SharedPrincipal(), Preset: preset})(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s := &served{base: func(_ int, r *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		strict.ServeHTTP(w, r)
		return w.Result(), nil
	}}
	intent := retryhttp.WithKey(t.Context(), retryhttp.Key{Value: "k"})
	for _, c := range []struct {
		name   string
		ctx    context.Context //nolint:containedctx // a table
		rt     retryhttp.Transport
		header []string
		want   int
	}{
		{"bare", intent, retryhttp.Transport{}, nil, 400},
		{"quoted", intent, retryhttp.Transport{Dialect: retryhttp.Dialect{Quoted: true}}, nil, 200},
		{"made, and bare", t.Context(), retryhttp.Transport{Keys: true}, nil, 400},
		{"made, and quoted", t.Context(), retryhttp.Transport{Keys: true, Dialect: retryhttp.Dialect{Quoted: true}}, nil, 200},
		{"in the header", t.Context(), retryhttp.Transport{Dialect: retryhttp.Dialect{Quoted: true}}, []string{"Idempotency-Key", "k"}, 400},
		{"in both", intent, retryhttp.Transport{Dialect: retryhttp.Dialect{Quoted: true}}, []string{"Idempotency-Key", `"k"`}, 200},
	} {
		c.rt.Base = s
		resp, err := post(c.ctx, &c.rt, c.header...)
		if err != nil || resp.StatusCode != c.want {
			t.Errorf("%s: %v, %v", c.name, resp, err)
		}
	}
	if keys := s.header("Idempotency-Key"); !slices.Equal(keys[:2], []string{"k", `"k"`}) {
		t.Errorf("sent %q", keys)
	}
}
