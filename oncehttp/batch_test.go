package oncehttp_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
)

func TestBatchHandler(t *testing.T) {
	s := memstore.New()
	engine := once.New(s, once.Config{})
	runs := 0
	h := oncehttp.BatchHandler(engine, oncehttp.Config{Principal: oncehttp.SharedPrincipal(), Optional: true}, func(w http.ResponseWriter, r *http.Request, b *once.Batch) {
		runs++
		name := r.URL.Query().Get("name")
		b.ExecRows(1, "insert", name, "1")
		switch r.URL.Query().Get("do") {
		case "fail":
			b.ExecRows(1, "delete", "nothing")
		case "nest":
			if _, _, err := engine.Exec(r.Context(), once.Operation{Scope: "s", Key: "nested"}, nil); once.CodeOf(err) != once.CodeMisuse {
				t.Error("an operation inside of a batch:", err)
			}
		case "no":
			w.WriteHeader(http.StatusUnprocessableEntity)
		case "later":
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprintf(w, "%s %d", name, runs)
	})
	has := func(name string) bool {
		_, ok := s.Get(name)
		return ok
	}
	for _, c := range []struct {
		query, key string
		status     int
		body       string
		says       string
		there      bool
	}{
		{"name=a", "k1", 200, "a 1", "stored", true},
		{"name=a", "k1", 200, "a 1", "replayed", true},
		{"name=a", "k2", 500, "", "", true}, // its row is there already
		{"name=b&do=no", "k3", 422, "b 3", "stored", false},
		{"name=b&do=no", "k3", 422, "b 3", "replayed", false},
		{"name=c&do=later", "k4", 503, "c 4", "not-stored", false},
		{"name=c&do=later", "k4", 503, "c 5", "not-stored", false},
		{"name=d&do=fail", "k5", 500, "", "", false},
		{"name=d&do=fail", "k5", 500, "", "", false},
		{"name=e&do=nest", "k6", 200, "e 8", "stored", true},
		{"name=f", "", 200, "f 9", "ignored", true},
		{"name=a", "k3", 422, "", "", true}, // the key belongs to another request
	} {
		r := httptest.NewRequest(http.MethodPost, "/?"+c.query, strings.NewReader(""))
		if c.key != "" {
			r.Header.Set("Idempotency-Key", c.key)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.status || c.body != "" && w.Body.String() != c.body || w.Header().Get("Idempotency-Status") != c.says {
			t.Errorf("%s under %s: %d %q, %v", c.query, c.key, w.Code, w.Body, w.Header())
		}
		if got := has(r.URL.Query().Get("name")); got != c.there {
			t.Errorf("%s under %s: its write is there: %v", c.query, c.key, got)
		}
	}
}
