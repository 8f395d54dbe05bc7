package oncehttp_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// writes returns a handler with an effect that answers with a body, once.
func writes(status int, contentType, body string) handler {
	return func(w http.ResponseWriter, _ *http.Request, tx *memstore.Tx) {
		increment(tx, "n")
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Location", "/cards/1")
		w.Header().Set("Idempotency-Redacted", "forged")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// TestRedactKeepsSecretsOutOfReplays: the first answer has it all, and what is stored and replayed lacks what Redact names. The replay says so, and every other
// byte is the same.
func TestRedactKeepsSecretsOutOfReplays(t *testing.T) {
	const secret = "tok_4242"
	for name, c := range map[string]struct {
		redact       []string
		status       int
		body, replay string // "": not stored
		said         string
	}{
		"a member":        {[]string{"/card/token"}, 201, `{ "id": 7, "card": {"token":"` + secret + `", "last4" : "4242"} }`, `{ "id": 7, "card": {"token":null, "last4" : "4242"} }`, `"/card/token"`},
		"an object":       {[]string{"/card"}, 201, `{"card":{"token":"` + secret + `"}}`, `{"card":null}`, `"/card"`},
		"two, nested":     {[]string{"/card/token", "/card"}, 201, `{"card":{"token":"` + secret + `"},"a":[1,2]}`, `{"card":null,"a":[1,2]}`, `"/card/token", "/card"`},
		"an element":      {[]string{"/keys/1"}, 201, `{"keys":[1,"` + secret + `",3]}`, `{"keys":[1,null,3]}`, `"/keys/1"`},
		"twice":           {[]string{"/a"}, 201, `{"a":"` + secret + `","a":"` + secret + `"}`, `{"a":null,"a":null}`, `"/a"`},
		"escaped":         {[]string{"/a~1b/ü,\""}, 201, `{"a/b":{"\u00fc,\"":"` + secret + `"}}`, `{"a/b":{"\u00fc,\"":null}}`, `"/a~1b/%C3%BC,%22"`},
		"not there":       {[]string{"/card"}, 201, `{"id":7}`, `{"id":7}`, ""},
		"an error":        {[]string{"/card"}, 422, `{"card":"` + secret + `"}`, `{"card":null}`, `"/card"`},
		"not JSON":        {[]string{"/card"}, 201, `<card>` + secret + `</card>`, "", ""},
		"half of JSON":    {[]string{"/card"}, 201, `{"card":"` + secret + `"`, "", ""},
		"JSON and JSON":   {[]string{"/card"}, 201, `{"id":1}{"card":"` + secret + `"}`, "", ""},
		"an empty body":   {[]string{"/card"}, 201, ``, ``, ""},
		"nothing to hide": {nil, 201, `<card>` + secret + `</card>`, `<card>` + secret + `</card>`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			mem := memstore.New()
			h := oncehttp.Handler(once.New(mem, once.Config{Observer: once.Discard}), oncehttp.Config{Principal: oncehttp.SharedPrincipal(), Redact: c.redact}, writes(c.status, "application/json", c.body))
			stored := "stored"
			if name != "an empty body" && c.replay == "" {
				stored = "omitted"
			}
			first := roundTrip(h, "POST", "/cards", "x", "k")
			if first.status != c.status || first.body != c.body || first.idempotency() != stored || first.header.Get("Idempotency-Redacted") != "" {
				t.Errorf("first: %+v", first)
			}
			again := roundTrip(h, "POST", "/cards", "x", "k")
			if stored == "omitted" {
				if p := again.problem(t); p.Code != oncehttp.ProblemResultUnavailable || strings.Contains(again.body, secret) {
					t.Errorf("%+v", again)
				}
			} else if again.status != c.status || again.body != c.replay || again.idempotency() != "replayed" || again.header.Get("Idempotency-Redacted") != c.said || again.header.Get("Location") != "/cards/1" {
				t.Errorf("again: %+v", again)
			}
			rec, err := mem.Read(t.Context(), store.ID{Scope: "global POST /cards", Key: "k"})
			if err != nil || rec.State != store.StateDone || c.redact != nil && strings.Contains(string(rec.Result.Body), secret) {
				t.Errorf("%s, %v", rec.Result.Body, err)
			}
		})
	}
}

// TestRedactAndCoalesce: a duplicate that waits in the same process gets what is stored, as any replay does, and so does the cache.
func TestRedactAndCoalesce(t *testing.T) {
	const body = `{"token":"tok_4242"}`
	s := start(t, setup{engine: once.Config{Cache: 1 << 20}, Config: oncehttp.Config{Redact: []string{"/token"}}}, writes(201, "application/json", body))
	if got := s.post("k", "1"); got.body != body {
		t.Errorf("%+v", got)
	}
	for range 2 {
		if got := s.post("k", "1"); got.body != `{"token":null}` || got.header.Get("Idempotency-Redacted") == "" {
			t.Errorf("%+v", got)
		}
	}
	s.expect(1, "n", 1)
}

// TestARuleThatIsTakenAway: a replay says what its record lacks, whatever the route redacts by now.
func TestARuleThatIsTakenAway(t *testing.T) {
	engine := once.New(memstore.New(), once.Config{Observer: once.Discard})
	for i, redact := range [][]string{{"/token"}, nil, {"/id"}} {
		h := oncehttp.Handler(engine, oncehttp.Config{Principal: oncehttp.SharedPrincipal(), Redact: redact}, writes(201, "application/json", `{"token":"tok_4242","id":1}`))
		if got := roundTrip(h, "POST", "/cards", "x", "k"); i > 0 && (got.body != `{"token":null,"id":1}` || got.header.Get("Idempotency-Redacted") != `"/token"`) {
			t.Errorf("%+v", got)
		}
	}
}
