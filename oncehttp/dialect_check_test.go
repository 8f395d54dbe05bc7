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

// The checks of the table of dialects.

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
			f.begin = func(store.BeginOptions) error { return fault(kind) }
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
		if p := got.problem(t); p.Code == "" || got.header.Get(name) != string(p.Code) {
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

// byParameters: a form is compared by its parameters, a retry may put them in another order.
func byParameters(t *testing.T, d dialect) {
	t.Helper()
	s := d.start(t, 200)
	const contentType, form = "Content-Type", "application/x-www-form-urlencoded"
	s.as("a", "POST", "/x", "k", "amount=100&metadata[a]=x+y&metadata[b]=1&expand[]=p&expand[]=q", contentType, form)
	says(t, s.as("a", "POST", "/x", "k", "expand%5B%5D=p&metadata%5Bb%5D=1&metadata%5Ba%5D=x%20y&expand%5B%5D=q&amount=100", contentType, form), 200, "Idempotent-Replayed", "true")
	for _, other := range []string{"amount=101&metadata[a]=x+y&metadata[b]=1&expand[]=p&expand[]=q", "amount=100&metadata[a]=x+y&metadata[b]=1&expand[]=q&expand[]=p", "amount=100"} {
		says(t, s.as("a", "POST", "/x", "k", other, contentType, form), 400, idemType, idem)
	}
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
