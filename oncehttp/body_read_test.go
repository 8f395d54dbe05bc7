package oncehttp_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/oncelib/once/oncehttp"
)

// A body that outer middleware has read cannot be compared: another one could pass for a
// retry. It is refused, done already or not, and the observer is told what to do.
func TestABodyThatWasRead(t *testing.T) {
	read := func(r *http.Request) []byte {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		return b
	}
	for name, c := range map[string]struct {
		eat     func(*http.Request)
		config  oncehttp.Config
		key     string
		refused bool
	}{
		"read":                 {func(r *http.Request) { read(r) }, oncehttp.Config{}, "k", true},
		"read and closed":      {func(r *http.Request) { read(r); r.Body.Close() }, oncehttp.Config{}, "k", true},
		"closed":               {func(r *http.Request) { r.Body.Close() }, oncehttp.Config{}, "k", true},
		"replaced by nothing":  {func(r *http.Request) { r.Body = http.NoBody }, oncehttp.Config{}, "k", true},
		"no body any more":     {func(r *http.Request) { r.Body = nil }, oncehttp.Config{}, "k", true},
		"the key was in it":    {func(r *http.Request) { read(r) }, oncehttp.Config{FormField: "once"}, "", true},
		"it may have been":     {func(r *http.Request) { read(r) }, oncehttp.Config{FormField: "once", Optional: true}, "", true},
		"of Config.Key":        {func(r *http.Request) { read(r) }, oncehttp.Config{Key: func(*http.Request) (string, error) { return "k", nil }}, "", true},
		"put back":             {func(r *http.Request) { r.Body = io.NopCloser(bytes.NewReader(read(r))) }, oncehttp.Config{}, "k", false},
		"in place of it":       {func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader(string(read(r)) + " and more")) }, oncehttp.Config{}, "k", false},
		"a form that is known": {func(r *http.Request) { _ = r.ParseForm() }, oncehttp.Config{}, "k", false},
		"without a key":        {func(r *http.Request) { read(r) }, oncehttp.Config{Optional: true}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			eats := false
			s := start(t, setup{Config: c.config, around: func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if eats {
						c.eat(r)
					}
					next.ServeHTTP(w, r)
				})
			}}, create)
			header := []string{"Content-Type", urlencoded}
			if c.key != "" {
				header = append(header, "Idempotency-Key", c.key)
			}
			const body, other = "once=k&amount=1000", "once=k&amount=9999"
			eats = !c.refused
			if got := s.send("POST", "/refunds", body, header...); got.status != 201 {
				t.Fatalf("%+v", got)
			}
			eats = true
			if !c.refused {
				want := 422
				if c.key == "" {
					want = 201
				}
				if got := s.send("POST", "/refunds", other, header...); got.status != want {
					t.Errorf("%+v", got)
				}
				return
			}
			for _, again := range []string{body, other} {
				got := s.send("POST", "/refunds", again, header...)
				p := got.problem(t)
				if got.status != 500 || p.Code != problemBodyConsumed || p.Retryable || p.SafeNewKey || strings.Contains(got.body, "Try:") {
					t.Errorf("%s: %+v", again, got)
				}
				if e := s.log.last(); e.Err == nil || !strings.Contains(e.Err.Error(), "Try: ") {
					t.Errorf("the observer is told of %+v", e)
				}
			}
			s.expect(1, "n", 1)
		})
	}
}

// What has no body was not eaten.
func TestNoBodyIsComparedAsNone(t *testing.T) {
	s := start(t, setup{}, create)
	for _, framing := range []string{"Content-Length: 0\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "\r\n"} {
		got := s.raw("POST /refunds HTTP/1.1\r\nHost: h\r\nConnection: close\r\nIdempotency-Key: k\r\n" + framing)
		if !strings.HasPrefix(string(got), "HTTP/1.1 201") {
			t.Errorf("%q: %s", framing, got)
		}
	}
	s.expect(1, "n", 1)
}
