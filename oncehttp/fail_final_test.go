package oncehttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
)

var declined = &once.Failure{Code: "CARD.declined", Message: "The card was declined.", Detail: json.RawMessage(`{"reason":"funds"}`)}

// TestFailWithAFailure: a final failure is an answer of status 422, which is stored and replayed, with an ordinary engine and under a lease.
// Nothing of what the handler has answered before is in it.
func TestFailWithAFailure(t *testing.T) {
	kept := *declined
	kept.CommitWrites = true
	const body = `{"title":"Unprocessable Entity","status":422,"detail":"The card was declined.","code":"CARD.declined","retryable":false,"safe_new_key":false,` +
		`"failure":{"code":"CARD.declined","message":"The card was declined.","detail":{"reason":"funds"}}}`
	for name, tt := range map[string]struct {
		fail   error
		stands bool // what an ordinary handler has written
	}{
		"a failure":           {declined, false},
		"one that is kept":    {&kept, true},
		"one that is wrapped": {fmt.Errorf("charge: %w", declined), false},
	} {
		t.Run(name, func(t *testing.T) {
			mem := memstore.New()
			runs := 0
			answers := func(w http.ResponseWriter, r *http.Request, err error) {
				runs++
				w.Header().Set("Location", "/orders/7")
				w.Header().Set("Vary", "Origin, Cookie")
				w.WriteHeader(http.StatusCreated)
				_, _ = w.Write([]byte("done"))
				if err != nil {
					t.Error(err)
				}
				oncehttp.Fail(w, r, errors.New("for now"))
				oncehttp.Fail(w, r, tt.fail)
			}
			cfg := oncehttp.Config{Principal: oncehttp.SharedPrincipal()}
			handlers := map[string]http.Handler{
				"ordinary": oncehttp.Handler(once.New(mem, once.Config{Observer: once.Discard}), cfg, func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
					increment(tx, "ordinary")
					answers(w, r, nil)
				}),
				"leased": oncehttp.Handler(once.New(lease.New(mem, lease.Config{}), once.Config{Observer: once.Discard}), cfg, func(w http.ResponseWriter, r *http.Request, run *lease.Run) {
					_, err := lease.InTx(r.Context(), run, mem, "a", func(_ context.Context, tx *memstore.Tx) (int, error) { return increment(tx, "leased"), nil })
					answers(w, r, err)
				}),
			}
			for engine, h := range handlers {
				for i, status := range []string{"stored", "replayed", "replayed"} {
					r := httptest.NewRequest(http.MethodPost, "/"+engine, strings.NewReader("x"))
					r.Header.Set("Idempotency-Key", engine)
					w := httptest.NewRecorder()
					w.Header().Set("Vary", "Origin") // of middleware around it
					h.ServeHTTP(w, r)
					if w.Code != http.StatusUnprocessableEntity || w.Body.String() != body || w.Header().Get("Idempotency-Status") != status ||
						w.Header().Get("Content-Type") != "application/problem+json" || w.Header().Get("Location") != "" || w.Header().Get("Vary") != "Origin" {
						t.Errorf("%s, request %d: %d %s %v", engine, i+1, w.Code, w.Body, w.Header())
					}
				}
				if _, stands := mem.Get(engine); stands != (tt.stands || engine == "leased") {
					t.Errorf("%s: what was written stands: %v", engine, stands)
				}
			}
			if runs != 2 {
				t.Errorf("%d runs", runs)
			}
		})
	}
}

// TestFailWithWhatIsNoFailure: an error that only looks like a failure is one that can be retried. Without an operation a failure is the
// same answer.
func TestFailWithWhatIsNoFailure(t *testing.T) {
	var fail error
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { oncehttp.Fail(w, r, fail) })
	protected := oncehttp.Middleware(once.New(memstore.New(), once.Config{Observer: once.Discard}), oncehttp.Config{Principal: oncehttp.SharedPrincipal()})(h)
	for name, tt := range map[string]struct {
		fail   error
		method string
		status int
	}{
		"nil":         {(*once.Failure)(nil), "POST", 500},
		"not JSON":    {&once.Failure{Code: "C", Detail: json.RawMessage("{")}, "POST", 500},
		"not keyed":   {declined, "GET", 422},
		"its own end": {declined, "POST", 422},
	} {
		fail = tt.fail
		r := httptest.NewRequest(tt.method, "/", http.NoBody)
		r.Header.Set("Idempotency-Key", name)
		w := httptest.NewRecorder()
		protected.ServeHTTP(w, r)
		if w.Code != tt.status || strings.Contains(w.Body.String(), `"retryable":true`) != (tt.status == 500) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}
