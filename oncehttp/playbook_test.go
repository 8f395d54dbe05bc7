package oncehttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/limit"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/oncehttp/openapi"
	"github.com/oncelib/once/oncehttp/refundplaybook"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// gateOf refuses everything.
type gateOf limit.Refusal

func (g gateOf) Enter(*http.Request, limit.Replay) (func(), *limit.Refusal) {
	r := limit.Refusal(g)
	return nil, &r
}

// TestPlaybookTaxonomy: each row of the playbook's table of errors, as a client meets it.
func TestPlaybookTaxonomy(t *testing.T) {
	playbook := refundplaybook.Preset()
	const own = "a code of this package that the playbook does not have"
	says := func(p oncehttp.Problem) handler {
		return func(w http.ResponseWriter, _ *http.Request, _ *memstore.Tx) { playbook.WriteProblem(w, p) }
	}
	for _, c := range []struct {
		code   oncehttp.ProblemCode
		status int
		retry  bool
		hint   string // a part of it
		source string

		setup  setup
		handle handler
		header []string // of a request with the body 2, after one with the body 1
	}{
		{code: "VALIDATION.idempotency_key_missing", status: 400, hint: "Correct the request", header: []string{}},
		{code: "VALIDATION.idempotency_key_invalid", status: 400, hint: "Correct the request", header: []string{"Idempotency-Key", "a,b"}},
		{code: "VALIDATION.request_timeout_invalid", status: 400, hint: "Correct the request", header: []string{"Idempotency-Key", "l", "X-Request-Timeout", "soon"}},
		{code: "VALIDATION.amount", status: 422, hint: "Correct the request", handle: says(oncehttp.Problem{Code: "VALIDATION.amount", Status: 422, Retryable: true})},
		{code: "VALIDATION.amount", status: 400, hint: "Correct the request", handle: says(oncehttp.Problem{Code: "VALIDATION.amount"})},
		{code: "AUTH.unauthenticated", status: 401, hint: "Authenticate again", setup: setup{Config: oncehttp.Config{Principal: func(*http.Request) string { return "" }}}},
		{code: "AUTH.permission", status: 403, hint: "permission", handle: says(oncehttp.Problem{Code: "AUTH.permission", Status: 403})},
		{code: "CONFLICT.idempotency.payload_mismatch", status: 409, hint: "new key", header: []string{"Idempotency-Key", "k"}},
		{code: "RATE_LIMIT.exceeded", status: 429, retry: true, hint: "Retry-After", setup: setup{Config: oncehttp.Config{Gate: gateOf{Code: "RATE_LIMIT.exceeded", Status: 429}}}},
		{code: "RATE_LIMIT.exceeded", status: 429, retry: true, hint: "Retry-After", handle: says(oncehttp.Problem{Code: "RATE_LIMIT.exceeded"})},
		{code: "DEPENDENCY.timeout", status: 504, retry: true, hint: "backoff", header: []string{"Idempotency-Key", "l", "X-Request-Timeout", "20ms"}, handle: untilDeadline},
		{code: "DEPENDENCY.timeout", status: 504, retry: true, hint: "backoff", handle: func(w http.ResponseWriter, r *http.Request, _ *memstore.Tx) {
			oncehttp.Fail(w, r, fmt.Errorf("provider: %w", context.DeadlineExceeded))
		}},
		{code: "DEPENDENCY.timeout", status: 504, retry: true, hint: "backoff", handle: says(oncehttp.Problem{Code: "DEPENDENCY.timeout"})},
		{code: "DEPENDENCY.unavailable", status: 503, retry: true, hint: "backoff", setup: setup{faults: beginFails(store.KindUnavailable)}},
		{code: "DEPENDENCY.unavailable", status: 503, retry: true, hint: "backoff", handle: says(oncehttp.Problem{Code: "DEPENDENCY.unavailable"})},
		{code: "TRANSIENT.conflict", status: 503, retry: true, hint: "backoff", setup: setup{faults: beginFails(store.KindRetry)}},
		{code: "TRANSIENT.overloaded", status: 503, retry: true, hint: "backoff", setup: setup{Config: oncehttp.Config{Gate: gateOf{Code: "TRANSIENT.overloaded", Status: 503}}}},
		{code: "TRANSIENT.handler_failed", status: 500, retry: true, hint: "backoff", handle: func(w http.ResponseWriter, r *http.Request, _ *memstore.Tx) {
			oncehttp.Fail(w, r, errors.New("secret"))
		}},
		{code: "PROVIDER.duplicate", status: 409, hint: "existing result", handle: says(oncehttp.Problem{Code: "PROVIDER.duplicate", Retryable: true})},
		{code: problemTransactionMisuse, status: 500, hint: "Report", source: own, handle: says(oncehttp.Problem{Code: problemTransactionMisuse})},
		{code: oncehttp.ProblemResultUnavailable, status: 409, hint: "existing result", source: own, handle: says(oncehttp.Problem{Code: oncehttp.ProblemResultUnavailable})},
		{code: "SHOP.closed", status: 418, source: "an unknown code stays as it is", handle: says(oncehttp.Problem{Code: "SHOP.closed", Status: 418})},
	} {
		t.Run(string(c.code), func(t *testing.T) {
			c.setup.Preset = playbook
			handle := create
			s := start(t, c.setup, func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) { handle(w, r, tx) })
			s.send("POST", "/x", "1", "Idempotency-Key", "k")
			if handle = c.handle; handle == nil {
				handle = create
			}
			if c.header == nil {
				c.header = []string{"Idempotency-Key", "l"}
			}
			got := s.send("POST", "/x", "2", c.header...)
			p := got.problem(t)
			var members struct{ Hint string }
			if err := json.Unmarshal([]byte(got.body), &members); err != nil {
				t.Fatal(err)
			}
			if got.status != c.status || p.Status != c.status || p.Code != c.code || got.header.Get("Error_code") != string(c.code) || p.Retryable != c.retry ||
				!strings.Contains(members.Hint, c.hint) || (members.Hint == "") != (c.hint == "") {
				t.Errorf("want %d %s, retry %t, hint %q (%s): %+v", c.status, c.code, c.retry, c.hint, c.source, got)
			}
		})
	}
}

func untilDeadline(w http.ResponseWriter, r *http.Request, _ *memstore.Tx) {
	<-r.Context().Done()
	oncehttp.Fail(w, r, r.Context().Err())
}

func beginFails(kind store.Kind) func(*faulty) {
	return func(f *faulty) { f.begin = func(store.BeginOptions) error { return fault(kind) } }
}

// A handler whose own deadline is over has applied nothing; the client is told that, in any dialect.
func TestADeadlineOfTheHandler(t *testing.T) {
	s := start(t, setup{}, func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
		increment(tx, "n")
		own, cancel := context.WithTimeout(r.Context(), time.Millisecond)
		defer cancel()
		<-own.Done()
		oncehttp.Fail(w, r, own.Err())
	})
	got := s.post("k", "")
	if p := got.problem(t); got.status != 503 || p.Code != oncehttp.ProblemTimeout || !p.Retryable || p.SafeNewKey || !strings.Contains(p.Detail, "Nothing was applied") {
		t.Errorf("%+v", got)
	}
	s.expect(1, "n", 0)
}

// What a preset renames is renamed everywhere: in the type and in the document; a name for
// what does not exist is a mistake in the program.
func TestCodesOfAPreset(t *testing.T) {
	e := once.New(memstore.New(), once.Config{})
	text := openapi.New(e, map[string]oncehttp.Config{"POST /x": {Principal: oncehttp.SharedPrincipal(), Preset: refundplaybook.Preset()}}).String()
	if strings.Contains(text, string(oncehttp.ProblemMismatch)) || !strings.Contains(text, `"CONFLICT.idempotency.payload_mismatch"`) || !strings.Contains(text, "/problems/conflict/idempotency/payload-mismatch") ||
		!strings.Contains(text, "One of: CONFLICT.idempotency.in_flight, CONFLICT.idempotency.payload_mismatch,") {
		t.Error(text)
	}
	for code, name := range map[oncehttp.ProblemCode]oncehttp.ProblemCode{"CONFLICT.other": "x", oncehttp.ProblemMismatch: ""} {
		preset := oncehttp.DefaultPreset()
		preset.Codes = map[oncehttp.ProblemCode]oncehttp.ProblemCode{code: name}
		if p := panicOf(func() { oncehttp.Middleware(e, oncehttp.Config{Principal: oncehttp.SharedPrincipal(), Preset: preset}) }); !strings.Contains(p, "\nTry: ") {
			t.Errorf("%s: %q", code, p)
		}
	}
}
