package oncehttp_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// Two routes that look alike behind http.StripPrefix are two requests, whatever the inner
// router knows of them.
func TestStripPrefix(t *testing.T) {
	for name, wrap := range map[string]func(http.Handler) http.Handler{
		"router inside": func(next http.Handler) http.Handler {
			mux := http.NewServeMux()
			mux.Handle("POST /charges", next)
			return mux
		},
		"two routers inside": func(next http.Handler) http.Handler {
			inner, outer := http.NewServeMux(), http.NewServeMux()
			inner.Handle("POST /charges", next)
			outer.Handle("/charges", http.StripPrefix("", inner))
			return outer
		},
		"no router inside": func(next http.Handler) http.Handler { return next },
		"no pattern at all": func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r = r.Clone(r.Context())
				r.Pattern = ""
				next.ServeHTTP(w, r)
			})
		},
		"rewritten in place": func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.URL.Path, r.URL.RawPath = "/charges", "" // as some routers do
				r.Pattern = "POST /charges"
				next.ServeHTTP(w, r)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, setup{around: func(next http.Handler) http.Handler {
				mux := http.NewServeMux()
				mux.Handle("/test/", http.StripPrefix("/test", wrap(next)))
				mux.Handle("/live/", http.StripPrefix("/live", wrap(next)))
				return mux
			}}, func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
				if r.URL.Path != "/charges" {
					t.Errorf("nothing was stripped: %s", r.URL.Path)
				}
				create(w, r, tx)
			})
			header := []string{"Idempotency-Key", "k"}
			if got := s.send("POST", "/test/charges", "1000", header...); got.status != 201 {
				t.Fatalf("%+v", got)
			}
			if got := s.send("POST", "/live/charges", "1000", header...); got.idempotency() == "replayed" || got.status != 422 && got.body != "refund 2" {
				t.Errorf("the charge of /live is answered with that of /test: %+v", got)
			}
			if got := s.send("POST", "/test/charges", "1000", header...); got.idempotency() != "replayed" || got.body != "refund 1" {
				t.Errorf("the retry: %+v", got)
			}
		})
	}
}

// What a version before has stored stays known: where nothing was stripped, the path in a
// fingerprint is the one that it was, however it was sent.
func TestFingerprintsOfPathsStay(t *testing.T) {
	for _, c := range []struct{ target, path, query string }{
		{"/refunds", "/refunds", ""},
		{"/refunds?a=b", "/refunds", "a=b"},
		{"/refunds?a=/b?c", "/refunds", "a=/b?c"},
		{"/a%2Fb", "/a%2Fb", ""},
		{"/a%2fb%20c", "/a%2fb%20c", ""},
		{"/a\"b", "/a%22b", ""},
		{"/a#b", "/a%23b", ""},
		{"/\u00fc", "/%C3%BC", ""},
		{"//a//b/../c", "//a//b/../c", ""},
		{"http://example.com/refunds?a", "/refunds", "a"},
		{"http://example.com", "", ""},
	} {
		s := start(t, setup{}, create)
		const head = " HTTP/1.1\r\nHost: h\r\nConnection: close\r\nIdempotency-Key: k\r\nContent-Length: 3\r\n\r\nabc"
		if got := s.raw("POST " + c.target + head); !strings.HasPrefix(string(got), "HTTP/1.1 201") {
			t.Fatalf("%s: %s", c.target, got)
		}
		route := "POST " + c.path
		rec, err := s.store.Read(t.Context(), store.ID{Scope: s.log.last().Scope, Key: "k"})
		want := once.FingerprintOf([]byte("POST"), []byte(route), []byte(c.path), []byte(c.query), nil, []byte("abc"))
		if err != nil || !bytes.Equal(rec.Fingerprint, want[:]) {
			t.Errorf("%s: another fingerprint than before, %v", c.target, err)
		}
	}
}
