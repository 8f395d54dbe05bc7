package oncehttp_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
)

func TestHeaders(t *testing.T) {
	s := start(t, setup{Config: oncehttp.Config{Headers: []string{"x-kept", "Set-Cookie", "authorization", "Connection", "Transfer-Encoding", "Date", "Idempotency-Status"}}},
		func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
			h := w.Header()
			for _, name := range []string{"Content-Language", "Content-Disposition", "Content-Location", "Location", "ETag", "Cache-Control", "Last-Modified", "Link", "X-Kept"} {
				h.Set(name, "kept")
			}
			for _, name := range []string{"Set-Cookie", "Authorization", "X-Other", "Www-Authenticate", "Idempotency-Status", "Idempotent-Replayed"} {
				h.Set(name, "once")
			}
			h.Set("Content-Encoding", "identity")
			create(w, r, tx)
		})
	first, again := s.post("k", ""), s.post("k", "")
	for name, values := range first.header {
		switch name {
		case "Set-Cookie", "Authorization", "X-Other", "Www-Authenticate":
			if v := again.header.Get(name); v != "" || values[0] != "once" {
				t.Errorf("%s is %q, then %q", name, values, v)
			}
		case "Date", "Idempotency-Status":
		default:
			if strings.Join(values, "\n") != strings.Join(again.header[name], "\n") {
				t.Errorf("%s is %q, then %q", name, values, again.header[name])
			}
		}
	}
	for name := range again.header {
		if _, ok := first.header[name]; !ok && name != "Idempotent-Replayed" {
			t.Errorf("%s is new", name)
		}
	}
	if first.idempotency() != "stored" || again.idempotency() != "replayed" || len(first.header["Idempotency-Status"]) != 1 || first.header.Get("X-Kept") != "kept" {
		t.Errorf("%v, then %v", first.header, again.header)
	}
}

// What outer middleware sets for this request survives a replay; what is stored wins.
func TestHeadersOfOuterMiddleware(t *testing.T) {
	n := 0
	s := start(t, setup{around: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n++
			w.Header().Set("X-Request-Id", fmt.Sprint(n))
			w.Header().Set("Etag", fmt.Sprint(n))
			if n > 1 {
				w.Header().Set("Link", "</new>")
			}
			next.ServeHTTP(w, r)
		})
	}}, create)
	for i, want := range []string{"1", "2"} {
		if got := s.post("k", ""); got.header.Get("X-Request-Id") != want || got.header.Get("Etag") != "1" || got.header.Get("Link") != "" {
			t.Errorf("%d: %v", i, got.header)
		}
	}
}
