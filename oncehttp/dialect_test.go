package oncehttp_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// Where the cells of the table below are from.
const (
	stripeAPI    = "docs.stripe.com/api/idempotent_requests"
	stripeErrors = "docs.stripe.com/error-low-level"
	stripeV2     = "docs.stripe.com/api-v2-overview#idempotency"
	stripeGo     = "stripe-go v85: stripe.go, params.go, error.go"
	stripeNode   = "stripe-node: _defaultIdempotencyKey"
	ruby503      = "github.com/stripe/stripe-ruby/issues/503"
	ruby598      = "github.com/stripe/stripe-ruby/issues/598"
	ruby431      = "github.com/stripe/stripe-ruby/issues/431"
	ours         = "our own choice: nothing public says it"
	playbook     = "the playbook: 409 on mismatch, error_code, DELETE keyed, canonical hash"
	asDefault    = "as the default preset"
)

// cell is one thing that a dialect does, and the source that says so.
type cell struct {
	what   string
	source string
	check  func(t *testing.T, d dialect)
}

type dialect func() *oncehttp.Preset

// start starts a service in the dialect whose handler answers with status.
func (d dialect) start(t *testing.T, status int) *service {
	t.Helper()
	return start(t, setup{Config: oncehttp.Config{Preset: d(), Principal: func(r *http.Request) string { return r.Header.Get("X-Account") }}}, answers(status))
}

func (s *service) as(account, method, target, key, body string, header ...string) response {
	s.t.Helper()
	return s.send(method, target, body, append([]string{"X-Account", account, "Idempotency-Key", key}, header...)...)
}

// replays: the answer is stored, with its writes or without.
func replays(status, effects int) func(*testing.T, dialect) {
	return func(t *testing.T, d dialect) {
		t.Helper()
		s := d.start(t, status)
		first, again := s.as("a", "POST", "/x", "k", "1"), s.as("a", "POST", "/x", "k", "1")
		if first.status != status || again.status != status || first.body != again.body || first.header.Get("Idempotent-Replayed") != "" || again.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%+v, then %+v", first, again)
		}
		s.expect(1, "n", effects)
	}
}

// executesAgain: the answer is not stored, and nothing that led to it is kept.
func executesAgain(statuses ...int) func(*testing.T, dialect) {
	return func(t *testing.T, d dialect) {
		t.Helper()
		for _, status := range statuses {
			s := d.start(t, status)
			s.as("a", "POST", "/x", "k", "1")
			if again := s.as("a", "POST", "/x", "k", "1"); again.status != status || again.header.Get("Idempotent-Replayed") != "" || again.header.Get("Stripe-Should-Retry") != "" {
				t.Errorf("%d: %+v", status, again)
			}
			s.expect(2, "n", 0)
		}
	}
}

// keyed: which methods carry a key.
func keyed(methods string) func(*testing.T, dialect) {
	return func(t *testing.T, d dialect) {
		t.Helper()
		if got := strings.Join(d().Methods, " "); got != methods {
			t.Errorf("methods %q, want %q", got, methods)
		}
	}
}

// kept: for how long a success is replayed.
func kept(retain time.Duration) func(*testing.T, dialect) {
	return func(t *testing.T, d dialect) {
		t.Helper()
		s := d.start(t, 200)
		s.as("a", "POST", "/x", "k", "1")
		s.store.Advance(retain - time.Minute)
		s.as("a", "POST", "/x", "k", "1")
		s.expect(1, "n", 1)
		s.store.Advance(time.Minute)
		s.as("a", "POST", "/x", "k", "1")
		s.expect(2, "n", 2)
	}
}

// mismatch: what the same key is told for something else.
func mismatch(status int, target string, header ...string) func(*testing.T, dialect) {
	return func(t *testing.T, d dialect) {
		t.Helper()
		s := d.start(t, 200)
		s.as("a", "POST", "/x", "k", "1")
		got := s.as("a", "POST", target, "k", "2")
		says(t, got, status, header...)
		s.expect(1, "n", 1)
		if other := s.as("b", "POST", target, "k", "2"); other.status != 200 {
			t.Errorf("another account: %+v", other)
		}
	}
}

// inFlight: what a duplicate is told while the first is executing.
func inFlight(status int, header ...string) func(*testing.T, dialect) {
	return func(t *testing.T, d dialect) {
		t.Helper()
		inside, goOn := make(chan struct{}), make(chan struct{})
		s := start(t, setup{Config: oncehttp.Config{Preset: d()}}, func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
			close(inside)
			<-goOn
			answers(200)(w, r, tx)
		})
		first := make(chan response)
		go func() {
			r, _ := s.try("POST", "/x", "1", "Idempotency-Key", "k")
			first <- r
		}()
		<-inside
		says(t, s.as("", "POST", "/x", "k", "1"), status, append(header, "Retry-After", "1")...)
		close(goOn)
		if r := <-first; r.status != 200 {
			t.Errorf("the first one: %+v", r)
		}
	}
}

// fails: what is told when the store cannot.
func fails(kind store.Kind, status int, header ...string) func(*testing.T, dialect) {
	return func(t *testing.T, d dialect) {
		t.Helper()
		s := start(t, setup{Config: oncehttp.Config{Preset: d()}, faults: func(f *faulty) {
			f.begin = func(store.Ask) error { return fault(kind) }
		}}, create)
		says(t, s.as("", "POST", "/x", "k", "1"), status, header...)
		s.expect(0, "n", 0)
	}
}

// says compares status, header lines, and members of Stripe's error: "error.type".
func says(t *testing.T, got response, status int, pairs ...string) {
	t.Helper()
	if got.status != status {
		t.Errorf("status %d, want %d: %+v", got.status, status, got)
	}
	var body struct{ Error map[string]string }
	for i := 0; i < len(pairs); i += 2 {
		have := got.header.Get(pairs[i])
		if name, member := strings.CutPrefix(pairs[i], "error."); member {
			if err := json.Unmarshal([]byte(got.body), &body); err != nil || got.header.Get("Content-Type") != "application/json" {
				t.Errorf("not Stripe's error: %v in %+v", err, got)
			}
			if have = body.Error[name]; body.Error["message"] == "" {
				t.Errorf("no message: %s", got.body)
			}
		}
		if have != pairs[i+1] {
			t.Errorf("%s is %q, want %q: %+v", pairs[i], have, pairs[i+1], got)
		}
	}
}

// sameKey: two spellings of a key, and whether they are one.
func sameKey(a, b string, same bool) func(*testing.T, dialect) {
	return func(t *testing.T, d dialect) {
		t.Helper()
		s := d.start(t, 200)
		first, second := s.as("a", "POST", "/x", a, "1"), s.as("a", "POST", "/x", b, "1")
		if first.status != 200 || second.status != 200 || (second.header.Get("Idempotent-Replayed") == "true") != same {
			t.Errorf("%+v, then %+v", first, second)
		}
	}
}

// keyOf: what becomes of a key of n bytes.
func keyOf(n, status int) func(*testing.T, dialect) {
	return func(t *testing.T, d dialect) {
		t.Helper()
		s := d.start(t, 200)
		if got := s.as("a", "POST", "/x", strings.Repeat("k", n), "1"); got.status != status {
			t.Errorf("%d bytes: %+v", n, got)
		}
	}
}

// echoes: the key comes back with every answer.
func echoes(t *testing.T, d dialect) {
	t.Helper()
	s := d.start(t, 200)
	for _, body := range []string{"1", "1", "2"} {
		if got := s.as("a", "POST", "/x", "k", body); got.header.Get("Idempotency-Key") != "k" {
			t.Errorf("%+v", got)
		}
	}
}

// final: an error that is stored says that a retry is no use.
func final(status int, hint string) func(*testing.T, dialect) {
	return func(t *testing.T, d dialect) {
		t.Helper()
		s := d.start(t, status)
		for range 2 {
			says(t, s.as("a", "POST", "/x", "k", "1"), status, "Stripe-Should-Retry", hint)
		}
	}
}

// deletes: a DELETE is replayed.
func deletes(t *testing.T, d dialect) {
	t.Helper()
	s := d.start(t, 200)
	s.as("a", "DELETE", "/x/1", "k", "")
	if got := s.as("a", "DELETE", "/x/1", "k", ""); got.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%+v", got)
	}
	s.expect(1, "n", 1)
}

// errorCode: every problem has it as a header, whatever it is in the body.
func errorCode(t *testing.T, d dialect) {
	t.Helper()
	s := d.start(t, 200)
	s.as("a", "POST", "/x", "k", "1")
	const name = "Error_code" // as net/http spells it
	for _, got := range []response{s.as("a", "POST", "/x", "k", "2"), s.as("", "POST", "/x", "k", "1"), s.send("POST", "/x", "1", "X-Account", "a")} {
		if p := got.problem(t); p.Code == "" || got.header.Get(name) != p.Code {
			t.Errorf("%q in the header, %+v", got.header.Get(name), p)
		}
	}
}

// byValue: JSON is compared by what it says, other bodies by their bytes.
func byValue(t *testing.T, d dialect) {
	t.Helper()
	s := d.start(t, 200)
	const contentType, json = "Content-Type", "application/json"
	s.as("a", "POST", "/x", "k", `{"amount":1,"charge":"c"}`, contentType, json)
	says(t, s.as("a", "POST", "/x", "k", `{"charge": "c", "amount": 1}`, contentType, json), 200, "Idempotent-Replayed", "true")
	says(t, s.as("a", "POST", "/x", "k", `{"charge":"c","amount":1.0}`, contentType, json), 409)
	s.expect(1, "n", 1)
}

// failsInside: what the handler reports with Fail is rolled back, and a retry executes.
func failsInside(t *testing.T, d dialect) {
	t.Helper()
	s := start(t, setup{Config: oncehttp.Config{Preset: d()}}, func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
		increment(tx, "n")
		oncehttp.Fail(w, r, errors.New("secret"))
	})
	for range 2 {
		says(t, s.as("", "POST", "/x", "k", "1"), 500, "Stripe-Should-Retry", "true", "error.type", "api_error")
	}
	s.expect(2, "n", 0)
}

const (
	hint     = "Stripe-Should-Retry"
	idemType = "error.type"
	idem     = "idempotency_error"
)

var stripeV1Cells = []cell{
	{"POST carries a key", stripeNode, keyed("POST")},
	{"kept for 24 hours", stripeAPI, kept(24 * time.Hour)},
	{"success is replayed", stripeAPI, replays(200, 1)},
	{"400 of an endpoint is replayed", stripeErrors, replays(400, 0)},
	{"402 is replayed", stripeAPI, replays(402, 0)},
	{"404 is replayed", stripeAPI, replays(404, 0)},
	{"424 is replayed", stripeAPI, replays(424, 0)},
	{"500 is replayed", stripeAPI, replays(500, 0)},
	{"503 is replayed", stripeAPI, replays(503, 0)},
	{"401, 409 and 429 are not stored", stripeErrors, executesAgain(401, 409, 429)},
	{"403, 408, 423 and 425 are not stored", ours, executesAgain(403, 408, 423, 425)},
	{"mismatch is 400", ruby503, mismatch(400, "/x", idemType, idem, hint, "false")},
	{"another endpoint is a mismatch, another account is not", ruby598, mismatch(400, "/y", idemType, idem, hint, "false")},
	{"in flight is 409", ruby431, inFlight(409, idemType, idem, "error.code", "idempotency_key_in_use", hint, "true")},
	{"a conflict is a lock timeout: 429", stripeGo, fails(store.Retry, 429, "error.code", "lock_timeout", hint, "true")},
	{"the store is away: 503", ours, fails(store.Down, 503, idemType, "api_error", hint, "true")},
	{"a handler that fails is executed again", ours, failsInside},
	{"a stored error is not to be retried", stripeGo, final(500, "false")},
	{"a refused card is not to be retried", stripeGo, final(402, "false")},
	{"a success gives no hint", ours, final(200, "")},
	{"a key may have 255 bytes", stripeAPI, keyOf(255, 200)},
	{"a key of 256 bytes is refused", stripeAPI, keyOf(256, 400)},
	{"a key is opaque: quotation marks", ours, sameKey(`"k"`, "k", false)},
	{"a key is opaque: commas and semicolons", ours, sameKey("order;17,b", "order;17,b", true)},
	{"the key comes back", stripeGo, echoes},
}

var dialects = map[string]struct {
	preset dialect
	cells  []cell
}{
	"stripe-v1": {oncehttp.StripeV1, stripeV1Cells},
	"stripe-v2": {oncehttp.StripeV2, []cell{
		{"POST and DELETE carry a key", stripeNode, keyed("POST DELETE")},
		{"a DELETE is replayed", stripeNode, deletes},
		{"kept for 30 days", stripeErrors, kept(30 * 24 * time.Hour)},
		{"success is replayed", stripeV2, replays(200, 1)},
		{"failures are executed again", stripeV2, executesAgain(400, 402, 404, 409, 424, 429, 500, 503)},
		{"mismatch is 400", ours, mismatch(400, "/x", idemType, idem)},
		{"another endpoint is a mismatch", ours, mismatch(400, "/y", idemType, idem)},
		{"in flight is 409", stripeGo, inFlight(409, idemType, idem, hint, "true")},
		{"the key comes back", stripeGo, echoes},
	}},
	"refund-playbook": {oncehttp.RefundPlaybook, []cell{
		{"reversals by DELETE carry a key", playbook, keyed("POST PATCH DELETE")},
		{"a DELETE is replayed", playbook, deletes},
		{"mismatch is 409", playbook, mismatch(409, "/x", "error_code", oncehttp.CodeMismatch)},
		{"in flight is 409, too, and another code", playbook, inFlight(409, "error_code", oncehttp.CodeInFlight)},
		{"every problem has its code in a header", playbook, errorCode},
		{"JSON is compared by value", playbook, byValue},
		{"kept as long as the engine says", asDefault, kept(72 * time.Hour)},
		{"success is replayed", asDefault, replays(201, 1)},
		{"422 is replayed", asDefault, replays(422, 0)},
		{"what is not final is executed again", asDefault, executesAgain(401, 403, 408, 409, 423, 425, 429, 500, 503)},
		{"quoted and bare keys are the same", asDefault, sameKey(`"k"`, "k", true)},
	}},
}

// TestDialects: each cell of the table, by itself.
func TestDialects(t *testing.T) {
	for name, d := range dialects {
		if got := d.preset().Name; got != name {
			t.Errorf("%s is called %q", name, got)
		}
		if d.preset().Verdicts[2] = oncehttp.Forget; d.preset().Verdicts[2] != oncehttp.Commit {
			t.Errorf("%s is not fresh", name)
		}
		for _, c := range d.cells {
			t.Run(name+"/"+c.what, func(t *testing.T) {
				c.check(t, d.preset)
				if t.Failed() {
					t.Logf("source: %s", c.source)
				}
			})
		}
	}
}
