package oncehttp_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
)

// TestFailIsLogged: with the set-up of the first page, the error that a handler gives to Fail
// is in the program's log, also where there is no operation to fail.
func TestFailIsLogged(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	mux := http.NewServeMux()
	protect := oncehttp.Middleware(once.New(memstore.New(), once.Config{}), oncehttp.Config{Principal: oncehttp.SharedPrincipal()})
	fails := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		oncehttp.Fail(w, r, errors.New("no paper in the printer"))
	})
	mux.Handle("/", protect(fails)) // GET is not keyed
	mux.Handle("/bare", fails)
	for _, c := range []struct{ method, path string }{{"POST", "/"}, {"GET", "/"}, {"POST", "/bare"}} {
		var log bytes.Buffer
		slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
		r := httptest.NewRequest(c.method, c.path, http.NoBody)
		r.Header.Set("Idempotency-Key", "k")
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		if w.Code != 500 || strings.Contains(w.Body.String(), "paper") {
			t.Errorf("%s %s: %d %s", c.method, c.path, w.Code, w.Body)
		}
		if strings.Count(log.String(), "no paper in the printer") != 1 {
			t.Errorf("%s %s: the log says %q", c.method, c.path, &log)
		}
	}
}
