package oncehttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
)

// participant is a service with a route and one that undoes it.
type participant struct {
	*service

	forward http.Handler
	given   []string // answers that undos were given
	says    func(w http.ResponseWriter, r *http.Request)
}

// undoing starts a participant whose deposits are served by h.
func undoing(t *testing.T, cfg oncehttp.Config, h handler) *participant {
	t.Helper()
	p := &participant{says: func(http.ResponseWriter, *http.Request) {}}
	if cfg.Principal == nil {
		cfg.Principal = func(r *http.Request) string { return r.Header.Get("Account") }
	}
	undos := cfg
	undos.Undoes = "POST /deposits"
	p.service = start(t, setup{Config: undos, around: func(next http.Handler) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("POST /undo", next)
		mux.Handle("POST /deposits/undo", next)
		mux.HandleFunc("POST /deposits", func(w http.ResponseWriter, r *http.Request) { p.forward.ServeHTTP(w, r) })
		return mux
	}}, func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
		body, _ := io.ReadAll(r.Response.Body)
		p.given = append(p.given, fmt.Sprint(r.Response.StatusCode, " ", r.Response.Header.Get("Location"), " ", string(body)))
		increment(tx, "undone")
		p.says(w, r)
	})
	p.forward = oncehttp.Handler(once.New[*memstore.Tx](p.store, once.Config{Observer: once.Discard}), cfg, h)
	return p
}

func (p *participant) deposit(key, body string, header ...string) response {
	p.t.Helper()
	return p.send("POST", "/deposits", body, append([]string{"Account", "a", "Idempotency-Key", key}, header...)...)
}

func (p *participant) undo(key string, header ...string) response {
	p.t.Helper()
	return p.send("POST", "/deposits/undo", "", append([]string{"Account", "a", "Once-Undoes", key}, header...)...)
}

func (p *participant) wants(r response, status int, said string) {
	p.t.Helper()
	if r.status != status || r.idempotency() != said {
		p.t.Errorf("%d, %q %s; want %d, %q", r.status, r.idempotency(), r.body, status, said)
	}
}

// TestUndoRouteOfWhatWasExecuted: what was executed is undone once, whatever other keys the requests carry and whichever route they take; the undo gets its answer.
func TestUndoRouteOfWhatWasExecuted(t *testing.T) {
	p := undoing(t, oncehttp.Config{}, create)
	p.wants(p.deposit("d", "10"), 201, "stored")
	for i := range 3 {
		got := p.undo(`"d"`, "Idempotency-Key", fmt.Sprint(i))
		p.wants(got, 204, "undone")
		if replayed := got.header.Get("Idempotent-Replayed") == "true"; replayed != (i > 0) {
			t.Errorf("undo %d: %v", i, got.header)
		}
	}
	if len(p.given) != 1 || p.given[0] != "201 /refunds/1 refund 1" {
		t.Errorf("undos were given %q", p.given)
	}
	p.expect(1, "undone", 1)
	p.wants(p.deposit("d", "10"), 201, "replayed")
	other := p.send("POST", "/undo", "", "Account", "a", "Once-Undoes", "d")
	if other.status != 422 || other.problem(t).Code != oncehttp.ProblemMismatch {
		t.Errorf("another route for the same undo: %+v", other)
	}
	if got := p.undo("d", "Content-Type", "text/plain"); got.status != 422 {
		t.Errorf("another undo of the same: %+v", got)
	}
	p.expect(1, "undone", 1)
}

// TestUndoRouteComesFirst: the undo of what was not executed says so, and what comes later is refused for good.
func TestUndoRouteComesFirst(t *testing.T) {
	p := undoing(t, oncehttp.Config{}, create)
	for range 2 {
		p.wants(p.undo("d"), 204, "nothing")
		late := p.deposit("d", "10")
		if f := late.problem(t); late.status != 409 || f.Code != once.FailureUndone || f.Retryable || f.SafeNewKey || late.header.Get("Retry-After") != "" {
			t.Errorf("a late forward: %+v, %v", f, late.header)
		}
	}
	p.expect(0, "undone", 0)
	if v, _ := p.store.Get("n"); v != "" {
		t.Error("a late forward was executed")
	}
	p.wants(p.send("POST", "/deposits", "10", "Account", "b", "Idempotency-Key", "d"), 201, "stored")
	p.wants(p.undo("d"), 204, "nothing")
	p.expect(0, "undone", 0)
}

// TestUndoRouteOfARefusal: a 4xx has no effect, and an answer that was not kept is not undone without it.
func TestUndoRouteOfARefusal(t *testing.T) {
	p := undoing(t, oncehttp.Config{}, answers(422))
	p.wants(p.deposit("d", "10"), 422, "stored")
	p.wants(p.undo("d"), 204, "nothing")
	p.wants(p.deposit("d", "10"), 422, "replayed")
	large := undoing(t, oncehttp.Config{MaxStored: 4}, create)
	large.wants(large.deposit("d", "10"), 201, "omitted")
	if got := large.undo("d"); got.status != 409 || got.problem(t).Code != oncehttp.ProblemResultUnavailable || !strings.HasPrefix(got.problem(t).Detail, "The undo was not executed") {
		t.Errorf("%+v", got)
	}
	large.expect(0, "undone", 0)
}

// TestUndoRouteWaits: while the forward is under way the undo is told to come again, or waits for it.
func TestUndoRouteWaits(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Minute} {
		began, end := make(chan struct{}), make(chan struct{})
		p := undoing(t, oncehttp.Config{Wait: wait}, func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
			close(began)
			<-end
			create(w, r, tx)
		})
		done := make(chan response)
		go func() {
			got, _ := p.try("POST", "/deposits", "10", "Account", "a", "Idempotency-Key", "d")
			done <- got
		}()
		<-began
		if wait == 0 {
			if got := p.undo("d"); got.status != 409 || got.problem(t).Code != oncehttp.ProblemInFlight || !got.problem(t).Retryable || got.header.Get("Retry-After") == "" {
				t.Errorf("%+v", got)
			}
		}
		close(end)
		if wait == 0 { // an undo that is faster than the forward is told to come again
			p.wants(<-done, 201, "stored")
			p.wants(p.undo("d"), 204, "undone")
		} else {
			p.wants(p.undo("d"), 204, "undone")
			p.wants(<-done, 201, "stored")
		}
		p.expect(1, "undone", 1)
	}
}

// TestUndoRouteFails: an undo that fails leaves nothing and runs again; one that says no has said it for good, and does not say "undone".
func TestUndoRouteFails(t *testing.T) {
	p := undoing(t, oncehttp.Config{}, create)
	p.wants(p.deposit("d", "10"), 201, "stored")
	p.says = func(w http.ResponseWriter, r *http.Request) { oncehttp.Fail(w, r, errors.New("down")) }
	if got := p.undo("d"); got.status != 500 || !got.problem(t).Retryable {
		t.Errorf("%+v", got)
	}
	p.says = func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }
	p.wants(p.undo("d"), 503, "not-stored")
	p.says = func(w http.ResponseWriter, r *http.Request) {
		key, _ := oncehttp.Key(r.Context())
		oncehttp.Fail(w, r, &once.Failure{Code: "spent", Message: key})
	}
	for _, said := range []string{"stored", "replayed"} {
		got := p.undo("d")
		if p.wants(got, 422, said); !strings.Contains(got.body, `"d:undo"`) {
			t.Errorf("the key of an undo: %s", got.body)
		}
	}
	p.expect(3, "undone", 0)
}

// TestUndoRouteNeedsItsHeader: without it, and where it cannot be a key, nothing is undone.
func TestUndoRouteNeedsItsHeader(t *testing.T) {
	p := undoing(t, oncehttp.Config{Optional: true, FormField: "key"}, create)
	got := p.send("POST", "/deposits/undo", "", "Account", "a", "Idempotency-Key", "d")
	if f := got.problem(t); got.status != 400 || f.Code != oncehttp.ProblemKeyMissing || !strings.Contains(f.Detail, "Once-Undoes") {
		t.Errorf("%+v", f)
	}
	if got := p.undo("d", "Once-Undoes", "e"); got.status != 400 || got.problem(t).Code != oncehttp.ProblemKeyInvalid {
		t.Errorf("%+v", got)
	}
	p.expect(0, "undone", 0)
	for _, mistake := range []string{"too long " + strings.Repeat("r", 255), "a\n"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q was accepted", mistake)
				}
			}()
			oncehttp.NewRoute(once.New(memstore.New(), once.Config{}), oncehttp.Config{Principal: oncehttp.SharedPrincipal(), Undoes: mistake})
		}()
	}
}

// TestUndoRouteAndUndoAreOne: [once.Undo] and a route find what the other one has made of an operation.
func TestUndoRouteAndUndoAreOne(t *testing.T) {
	p := undoing(t, oncehttp.Config{}, func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(increment(tx, "n"))
	})
	e := once.New[*memstore.Tx](p.store, once.Config{Observer: once.Discard})
	var undone atomic.Int64
	inGo := func(key string) (bool, error) {
		scope := ""
		for _, ev := range p.log.list {
			if ev.Scope != "" {
				scope = ev.Scope
			}
		}
		return once.Undo(t.Context(), e, once.Operation{Scope: scope, Key: key}, func(_ context.Context, _ *memstore.Tx, n int) error {
			undone.Add(int64(n))
			return nil
		})
	}
	p.wants(p.undo("first"), 204, "nothing")
	if did, err := inGo("first"); did || err != nil {
		t.Errorf("%v, %v", did, err)
	}
	if did, err := inGo("second"); did || err != nil {
		t.Errorf("%v, %v", did, err)
	}
	if late := p.deposit("second", "10"); late.status != 409 || late.problem(t).Code != once.FailureUndone {
		t.Errorf("%+v", late)
	}
	p.wants(p.deposit("third", "10"), 200, "stored")
	if did, err := inGo("third"); !did || err != nil || undone.Load() != 1 {
		t.Errorf("%v, %v", did, err)
	}
	if got := p.undo("third"); got.status != 422 {
		t.Errorf("undone in Go, and asked for again by a request: %+v", got)
	}
	p.expect(0, "undone", 0)
}
