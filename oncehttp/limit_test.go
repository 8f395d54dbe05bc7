package oncehttp_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

func TestMaxRequest(t *testing.T) {
	s := start(t, setup{Config: oncehttp.Config{MaxRequest: 8}}, func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
		if b, err := io.ReadAll(r.Body); err != nil || len(b) != 8 {
			t.Errorf("%q, %v", b, err)
		}
		if _, err := r.Body.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("then %v", err)
		}
		create(w, r, tx)
	})
	refused := func(got response) {
		t.Helper()
		if p := got.problem(t); got.status != 413 || p.Code != oncehttp.ProblemBodyTooLarge || p.Retryable || p.SafeNewKey || !strings.Contains(p.Detail, "8 bytes") {
			t.Errorf("%+v", p)
		}
	}
	refused(s.post("k", "123456789"))
	s.expect(0, "n", 0)
	if got := s.post("k", "12345678"); got.status != 201 {
		t.Errorf("%+v", got)
	}
	// In chunks, without an announced length, the same.
	for body, status := range map[string]string{"8\r\n12345678\r\n0\r\n\r\n": "201", "9\r\n123456789\r\n0\r\n\r\n": "413"} {
		raw := s.raw("POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nIdempotency-Key: chunked" + status + "\r\nTransfer-Encoding: chunked\r\n\r\n" + body)
		if !strings.HasPrefix(string(raw), "HTTP/1.1 "+status) {
			t.Errorf("%q gives %.40q", body, raw)
		}
	}
	s.expect(2, "n", 2)
}

// What is announced to be too large is not read at all.
func TestMaxRequestAnnounced(t *testing.T) {
	r, _ := http.NewRequest(http.MethodPost, "/", unread{t})
	r.Header.Set("Idempotency-Key", "k")
	r.ContentLength = 1<<20 + 1
	w := &sink{header: http.Header{}}
	if headHandler(create).ServeHTTP(w, r); w.status != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d", w.status)
	}
}

type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

// A limit that outer middleware has put on the body counts as well.
func TestMaxBytesHandlerOutside(t *testing.T) {
	s := start(t, setup{around: func(next http.Handler) http.Handler { return http.MaxBytesHandler(next, 4) }}, create)
	if got := s.post("k", "12345"); got.status != 413 {
		t.Errorf("%+v", got)
	}
	s.expect(0, "n", 0)
}

func TestBodyThatEndsEarly(t *testing.T) {
	h := headHandler(create)
	r, _ := http.NewRequest(http.MethodPost, "/", io.MultiReader(strings.NewReader("half"), broken{}))
	r.Header.Set("Idempotency-Key", "k")
	w := &sink{header: http.Header{}}
	h.ServeHTTP(w, r)
	if w.status != 400 {
		t.Errorf("status %d", w.status)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// What Content-Length announces is not believed.
func TestContentLengthThatLies(t *testing.T) {
	for _, length := range []int64{-1, 0, 2, 4, 6, 1 << 19} {
		var seen string
		h := headHandler(func(w http.ResponseWriter, r *http.Request, _ *memstore.Tx) {
			b, _ := io.ReadAll(r.Body)
			seen = string(b)
			if r.ContentLength != 4 {
				t.Errorf("announced %d: the handler is told %d", length, r.ContentLength)
			}
		})
		r, _ := http.NewRequest(http.MethodPost, "/", io.NopCloser(strings.NewReader("four")))
		r.Header.Set("Idempotency-Key", "k")
		r.ContentLength = length
		w := &sink{header: http.Header{}}
		if h.ServeHTTP(w, r); seen != "four" || w.status != 200 {
			t.Errorf("announced %d: %q, %d", length, seen, w.status)
		}
	}
}

func TestMaxResponse(t *testing.T) {
	size := 9
	s := start(t, setup{Config: oncehttp.Config{MaxResponse: 8}}, func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
		increment(tx, "n")
		for range size {
			if _, err := w.Write([]byte("x")); err != nil && !strings.Contains(err.Error(), "MaxResponse") {
				t.Errorf("%v", err)
			}
		}
		_, _ = io.WriteString(w, "")
	})
	got := s.post("k", "")
	if p := got.problem(t); got.status != 500 || p.Code != problemResponseTooLarge || p.Retryable || p.SafeNewKey {
		t.Errorf("%+v", p)
	}
	s.expect(1, "n", 0)
	size = 8
	if got := s.post("k", ""); got.status != 200 || got.body != "xxxxxxxx" || got.idempotency() != "stored" {
		t.Errorf("%+v", got)
	}
	s.expect(2, "n", 1)
}

func TestMaxStored(t *testing.T) {
	for _, status := range []int{201, 422} {
		s := start(t, setup{Config: oncehttp.Config{MaxStored: 64}}, func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
			increment(tx, "n")
			w.Header().Set("Content-Type", "a/b")
			w.WriteHeader(status)
			fmt.Fprint(w, strings.Repeat("x", 64-len("Content-Type: a/b\n")+len(r.URL.RawQuery)))
		})
		effects := map[int]int{201: 1}[status]
		first := s.send("POST", "/refunds?1", "", "Idempotency-Key", "k")
		if first.status != status || first.idempotency() != "omitted" || first.header.Get("Idempotency-Retention") != "" || len(first.body) != 64-18+1 {
			t.Errorf("%d: %+v", status, first)
		}
		s.expect(1, "n", effects)
		again := s.send("POST", "/refunds?1", "", "Idempotency-Key", "k")
		if p := again.problem(t); again.status != 409 || p.Code != oncehttp.ProblemResultUnavailable || p.Retryable || p.SafeNewKey {
			t.Errorf("%d: %+v", status, p)
		}
		s.expect(1, "n", effects)
		if rec, _ := s.store.Read(t.Context(), store.ID{Scope: "global POST /refunds", Key: "k"}); rec.Result.Kind != store.ResultOmitted || rec.Result.Body != nil || len(rec.Result.Header) != 0 || rec.Result.RolledBack != (effects == 0) {
			t.Errorf("%d: stored: %+v", status, rec.Result)
		}
		// One byte less fits.
		if got := s.send("POST", "/refunds", "", "Idempotency-Key", "k2"); got.idempotency() != "stored" || got.header.Get("Idempotency-Retention") == "" {
			t.Errorf("%d: %+v", status, got)
		}
		if got := s.send("POST", "/refunds", "", "Idempotency-Key", "k2"); got.idempotency() != "replayed" {
			t.Errorf("%d: %+v", status, got)
		}
	}
}
