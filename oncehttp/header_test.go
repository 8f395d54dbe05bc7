package oncehttp_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/oncelib/once/internal/sql/head"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

func TestHeadersThatAreReplayed(t *testing.T) {
	s := start(t, setup{Config: oncehttp.Config{Headers: []string{"x-kept", "Set-Cookie", "authorization", "Connection", "Transfer-Encoding", "Date", "Idempotency-Status"}}},
		func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
			h := w.Header()
			for _, name := range []string{"Content-Language", "Content-Disposition", "Content-Location", "Location", "ETag", "Cache-Control", "Last-Modified", "Link", "Vary", "Allow", "X-Content-Type-Options", "X-Kept"} {
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
	rec, err := s.store.Read(t.Context(), store.ID{Scope: "global POST /refunds", Key: "k"})
	for _, f := range rec.Result.Header {
		if f.Value == "once" {
			t.Errorf("%s is stored", f.Name)
		}
	}
	if err != nil || len(rec.Result.Header) == 0 {
		t.Errorf("%+v, %v", rec.Result, err)
	}
	for name := range again.header {
		if _, ok := first.header[name]; !ok && name != "Idempotent-Replayed" {
			t.Errorf("%s is new", name)
		}
	}
	for _, name := range []string{"Vary", "Allow", "X-Content-Type-Options"} { // not sent by accident
		if again.header.Get(name) != "kept" {
			t.Errorf("%s is %q", name, again.header.Get(name))
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

// What is stored is what was sent: in order, one line each.
func TestStoredHeaders(t *testing.T) {
	s := start(t, setup{}, func(w http.ResponseWriter, _ *http.Request, _ *memstore.Tx) {
		h := w.Header()
		for _, name := range []string{"Link", "ETag", "Location", "Cache-Control", "Last-Modified", "Content-Language", "Content-Location"} {
			h[name] = []string{"b", "a\r\nX-Injected: 1"}
		}
		h.Set("Content-Type", "a/b")
	})
	s.post("k", "")
	rec, err := s.store.Read(t.Context(), store.ID{Scope: "global POST /refunds", Key: "k"})
	if err != nil || len(rec.Result.Header) != 15 {
		t.Fatalf("%+v, %v", rec.Result, err)
	}
	if !slices.IsSortedFunc(rec.Result.Header, func(a, b store.Field) int { return strings.Compare(a.Name, b.Name) }) {
		t.Errorf("%v", rec.Result.Header)
	}
	var back store.Result
	err = head.Decode(head.Encode(&rec.Result), &back)
	if err != nil || !slices.Equal(back.Header, rec.Result.Header) {
		t.Errorf("%v, %v", back, err)
	}
	for _, f := range rec.Result.Header {
		if f.Value != "a/b" && f.Value != "b" && f.Value != "a  X-Injected: 1" {
			t.Errorf("%q", f)
		}
	}
}

// A credential is never replayed, also if it is stored.
func TestStoredCredentialsStay(t *testing.T) {
	s := start(t, setup{}, create)
	_, err := s.store.Swap(t.Context(), store.Change{ID: store.ID{Scope: "global POST /refunds", Key: "k"}, Next: store.Record{
		State: store.StateDone, Fence: 1, Nonce: make([]byte, 16),
		Result: store.Result{Status: 200, Header: []store.Field{{Name: "set-cookie", Value: "a=b"}, {Name: "Connection", Value: "x"}, {Name: "ETag", Value: "1"}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.post("k", ""); got.status != 200 || got.header.Get("Set-Cookie") != "" || got.header.Get("Connection") != "" || got.header.Get("ETag") != "1" {
		t.Errorf("%+v", got)
	}
}

// A handler cannot say what only the middleware knows.
func TestHandlerDoesNotSpeakForUs(t *testing.T) {
	h := headHandler(func(w http.ResponseWriter, _ *http.Request, _ *memstore.Tx) {
		for _, name := range []string{"Idempotency-Status", "Idempotent-Replayed", "Idempotency-Retention", http.TrailerPrefix + "X"} {
			w.Header()[name] = []string{"forged"}
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	for method, says := range map[string]string{"GET": "ignored", "POST": "not-stored"} {
		got := roundTrip(h, method, "/", "", "k")
		if got.idempotency() != says || len(got.header) != 3 { // and Content-Type, Content-Length
			t.Errorf("%s: %v", method, got.header)
		}
	}
}

// http.Error forbids browsers to guess, on a replay as well.
func TestReplayedErrorForbidsToGuess(t *testing.T) {
	s := start(t, setup{}, func(w http.ResponseWriter, _ *http.Request, _ *memstore.Tx) {
		w.Header().Set("Allow", "POST")
		http.Error(w, "no", http.StatusMethodNotAllowed)
	})
	for range 2 {
		if got := s.post("k", ""); got.header.Get("X-Content-Type-Options") != "nosniff" || got.header.Get("Allow") != "POST" {
			t.Errorf("%v", got.header)
		}
	}
}

// What guards an answer is not taken away by one that was stored without it, as versions
// before did.
func TestGuardsOfOuterMiddleware(t *testing.T) {
	s := start(t, setup{around: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Vary", "Origin")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			next.ServeHTTP(w, r)
		})
	}}, create)
	for key, fields := range map[string][]store.Field{
		"old": {{Name: "Etag", Value: "1"}},
		"new": {{Name: "vary", Value: "Accept"}, {Name: "X-Content-Type-Options", Value: "nosniff"}},
	} {
		_, err := s.store.Swap(t.Context(), store.Change{ID: store.ID{Scope: "global POST /refunds", Key: key}, Next: store.Record{
			State: store.StateDone, Fence: 1, Nonce: make([]byte, 16), Result: store.Result{Status: 200, Header: fields},
		}})
		if err != nil {
			t.Fatal(err)
		}
		vary := map[string]string{"old": "Origin", "new": "Accept"}[key]
		if got := s.post(key, ""); got.status != 200 || got.idempotency() != "replayed" || strings.Join(got.header["Vary"], "") != vary || strings.Join(got.header["X-Content-Type-Options"], "") != "nosniff" {
			t.Errorf("%s: %+v", key, got)
		}
	}
}
