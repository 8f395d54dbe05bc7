package oncehttp_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// gzipped compresses as some middleware does: it says so before the handler runs.
func gzipped(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Accept-Encoding")
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		defer func() { _ = z.Close() }()
		next.ServeHTTP(gzipWriter{w, z}, r)
	})
}

type gzipWriter struct {
	http.ResponseWriter

	z *gzip.Writer
}

func (w gzipWriter) WriteHeader(status int) {
	w.Header().Del("Content-Length")
	w.ResponseWriter.WriteHeader(status)
}

func (w gzipWriter) Write(b []byte) (int, error) { return w.z.Write(b) }

// plain is the body of r as a client reads it, who believes what is said of its encoding.
func plain(t *testing.T, r response) string {
	t.Helper()
	if r.header.Get("Content-Encoding") == "" {
		return r.body
	}
	z, err := gzip.NewReader(strings.NewReader(r.body))
	if err != nil {
		t.Fatalf("%v of %q, said to be %q", err, r.body, r.header["Content-Encoding"])
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A Content-Encoding that was set before the handler ran is that of the layer outside, which
// encodes what it is given, replay or not: it is neither stored nor taken away.
func TestCompressionOutside(t *testing.T) {
	const gz, none = "gzip", "identity"
	for _, c := range [][3]string{{gz, none, gz}, {none, gz, none}, {gz, gz, none}, {none, none, gz}} {
		s := start(t, setup{around: gzipped}, create)
		var types []string
		for i, accepts := range c {
			got := s.post("k", "", "Accept-Encoding", accepts)
			if encoded := got.header.Get("Content-Encoding") == "gzip"; got.status != 201 || encoded != (accepts == gz) || plain(t, got) != "refund 1" {
				t.Errorf("%q, %d: %+v", c, i, got)
			}
			if types = append(types, got.header.Get("Content-Type")); types[i] != types[0] || types[i] == "" {
				t.Errorf("%q: content types %q", c, types)
			}
		}
		rec, err := s.store.Read(t.Context(), store.ID{Scope: "global POST /refunds", Key: "k"})
		for _, f := range rec.Result.Header {
			if f.Name == "Content-Encoding" {
				t.Errorf("%q: %+v is stored", c, f)
			}
		}
		if err != nil || string(rec.Result.Body) != "refund 1" {
			t.Errorf("%+v, %v", rec, err)
		}
		s.expect(1, "n", 1)
	}
}

// What a handler has encoded itself stays as it is, whatever the next client accepts.
func TestEncodingOfTheHandler(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, "refund 1")
	_ = z.Close()
	s := start(t, setup{}, func(w http.ResponseWriter, _ *http.Request, tx *memstore.Tx) {
		increment(tx, "n")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(b.Bytes())
	})
	for _, accepts := range []string{"gzip", "identity"} {
		if got := s.post("k", "", "Accept-Encoding", accepts); got.header.Get("Content-Encoding") != "gzip" || plain(t, got) != "refund 1" {
			t.Errorf("%s: %+v", accepts, got)
		}
	}
}
