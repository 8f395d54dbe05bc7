package oncehttp_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
)

func TestFirstAndReplay(t *testing.T) {
	s := start(t, setup{}, create)
	first := s.post("k", "1000")
	if first.status != 201 || first.body != "refund 1" || first.header.Get("Location") != "/refunds/1" {
		t.Errorf("first: %+v", first)
	}
	if first.idempotency() != "stored" || first.header.Get("Idempotent-Replayed") != "" || first.header.Get("Idempotency-Retention") != "259200" {
		t.Errorf("first says of itself: %v", first.header)
	}
	again := s.post("k", "1000")
	if again.status != 201 || again.body != first.body || again.header.Get("Location") != "/refunds/1" {
		t.Errorf("again: %+v", again)
	}
	if again.idempotency() != "replayed" || again.header.Get("Idempotent-Replayed") != "true" || again.header.Get("Idempotency-Retention") != "259200" {
		t.Errorf("again says of itself: %v", again.header)
	}
	s.expect(1, "n", 1)
	if other := s.post("k2", "1000"); other.body != "refund 2" {
		t.Errorf("another key: %+v", other)
	}
}

func TestAnswerExpires(t *testing.T) {
	s := start(t, setup{Config: oncehttp.Config{Retain: time.Hour}}, create)
	if got := s.post("k", "").header.Get("Idempotency-Retention"); got != "3600" {
		t.Errorf("retention %q", got)
	}
	s.store.Advance(59 * time.Minute)
	s.post("k", "")
	s.expect(1, "n", 1)
	s.store.Advance(2 * time.Minute)
	s.post("k", "")
	s.expect(2, "n", 2)
}

// Which answers are stored, and which of them keep the writes.
func TestVerdictsByStatus(t *testing.T) {
	for _, c := range []struct {
		status  int
		verdict oncehttp.Verdict
	}{
		{200, oncehttp.VerdictCommit}, {201, oncehttp.VerdictCommit}, {204, oncehttp.VerdictCommit}, {299, oncehttp.VerdictCommit}, {303, oncehttp.VerdictCommit}, {304, oncehttp.VerdictCommit},
		{400, oncehttp.VerdictAnswerOnly}, {402, oncehttp.VerdictAnswerOnly}, {404, oncehttp.VerdictAnswerOnly}, {410, oncehttp.VerdictAnswerOnly}, {412, oncehttp.VerdictAnswerOnly}, {422, oncehttp.VerdictAnswerOnly}, {451, oncehttp.VerdictAnswerOnly},
		{401, oncehttp.VerdictDiscard}, {403, oncehttp.VerdictDiscard}, {408, oncehttp.VerdictDiscard}, {409, oncehttp.VerdictDiscard}, {423, oncehttp.VerdictDiscard}, {425, oncehttp.VerdictDiscard},
		{429, oncehttp.VerdictDiscard}, {500, oncehttp.VerdictDiscard}, {502, oncehttp.VerdictDiscard}, {503, oncehttp.VerdictDiscard}, {599, oncehttp.VerdictDiscard}, {600, oncehttp.VerdictDiscard}, {999, oncehttp.VerdictDiscard},
	} {
		s := start(t, setup{}, answers(c.status))
		first, second := s.post("k", ""), s.post("k", "")
		if first.status != c.status || second.status != c.status || first.body != second.body {
			t.Errorf("%d: %+v, then %+v", c.status, first, second)
		}
		want, runs, effects := [2]string{"stored", "replayed"}, int64(1), 1
		switch c.verdict {
		case oncehttp.VerdictDiscard:
			want, runs, effects = [2]string{"not-stored", "not-stored"}, 2, 0
		case oncehttp.VerdictAnswerOnly:
			effects = 0
		}
		if got := [2]string{first.idempotency(), second.idempotency()}; got != want {
			t.Errorf("%d: %v, not %v", c.status, got, want)
		}
		if c.verdict == oncehttp.VerdictDiscard && first.header.Get("Idempotency-Retention") != "" {
			t.Errorf("%d: advertises retention", c.status)
		}
		s.expect(runs, "n", effects)
	}
}

func TestDecideOverridesTheStatus(t *testing.T) {
	for _, c := range []struct {
		status  int
		verdict oncehttp.Verdict
		again   string
		effects int
	}{
		{402, oncehttp.VerdictCommit, "replayed", 1},
		{409, oncehttp.VerdictAnswerOnly, "replayed", 0},
		{202, oncehttp.VerdictDiscard, "not-stored", 0},
		{500, oncehttp.VerdictCommit, "replayed", 1},
	} {
		s := start(t, setup{}, func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
			oncehttp.Decide(r.Context(), c.verdict)
			answers(c.status)(w, r, tx)
		})
		s.post("k", "")
		if again := s.post("k", ""); again.status != c.status || again.idempotency() != c.again {
			t.Errorf("%d %v: %+v", c.status, c.verdict, again)
		}
		if v, _ := s.store.Get("n"); (v == "1") != (c.effects == 1) {
			t.Errorf("%d %v: %q effects", c.status, c.verdict, v)
		}
	}
}

// Everything of a request that is part of what is asked.
func TestMismatchOfEachPart(t *testing.T) {
	type request struct{ method, target, body, contentType string }
	first := request{"POST", "/refunds?a=1", `{"amount":1}`, "application/json"}
	for name, c := range map[string]struct {
		second request
		same   bool
	}{
		"same":         {first, true},
		"method":       {request{"PATCH", first.target, first.body, first.contentType}, false},
		"query":        {request{"POST", "/refunds?a=2", first.body, first.contentType}, false},
		"query order":  {request{"POST", "/refunds?a=1&", first.body, first.contentType}, false},
		"body":         {request{"POST", first.target, `{"amount":2}`, first.contentType}, false},
		"white space":  {request{"POST", first.target, `{"amount": 1}`, first.contentType}, false},
		"no body":      {request{"POST", first.target, "", first.contentType}, false},
		"content type": {request{"POST", first.target, first.body, "text/json"}, false},
		"path":         {request{"POST", "/refunds/1?a=1", first.body, first.contentType}, false},
		"path escapes": {request{"POST", "/refund%73?a=1", first.body, first.contentType}, false},
	} {
		s := start(t, setup{Config: oncehttp.Config{Route: func(*http.Request) string { return "all" }}}, create)
		for i, r := range []request{first, c.second} {
			got := s.send(r.method, r.target, r.body, "Idempotency-Key", "k", "Content-Type", r.contentType)
			if i == 0 || c.same {
				if got.status != 201 {
					t.Errorf("%s: request %d: %+v", name, i, got)
				}
				continue
			}
			if p := got.problem(t); got.status != 422 || p.Code != oncehttp.ProblemMismatch || p.Retryable || p.SafeNewKey || !strings.Contains(p.Detail, "Method, route, path, query, content type and body are compared") {
				t.Errorf("%s: %+v", name, p)
			}
		}
		s.expect(1, "n", 1)
	}
}

func TestScopeOfPrincipalAndPath(t *testing.T) {
	s := start(t, setup{Config: oncehttp.Config{
		Principal: func(r *http.Request) string { return r.Header.Get("X-Account") },
	}}, create)
	seen := map[string]bool{}
	for _, c := range [][2]string{
		{"a", "/x"}, {"b", "/x"}, {"a", "/y"}, {"a", "/x/"}, {"a POST", "/x"}, {"a%20POST", "/x"}, {"\u00e4", "/x"}, {"%C3%A4", "/x"},
		{strings.Repeat("p", 600), "/x"}, {strings.Repeat("p", 601), "/x"}, {"a", "/" + strings.Repeat("x", 600)}, {"a", "/" + strings.Repeat("x", 601)},
		{"a", "/%00"}, {"a", "/%0a"}, {"a", "/%ff"}, {"a", "/\u00e4"},
	} {
		got := s.send("POST", c[1], "", "Idempotency-Key", "k", "X-Account", c[0])
		if got.status != 201 || seen[got.body] {
			t.Errorf("%.20q %.20q: %+v", c[0], c[1], got)
		}
		seen[got.body] = true
		if again := s.send("POST", c[1], "", "Idempotency-Key", "k", "X-Account", c[0]); again.body != got.body {
			t.Errorf("%.20q %.20q: again %+v", c[0], c[1], again)
		}
	}
}

// No principal can make up the scope of another one, whatever it is called and
// whatever the routes are.
func TestScopesDoNotMeet(t *testing.T) {
	s := start(t, setup{Config: oncehttp.Config{
		Principal: func(r *http.Request) string { return r.URL.Query().Get("p") },
		Route:     func(r *http.Request) string { return r.URL.Query().Get("r") },
	}}, create)
	seen := map[string]bool{}
	for i, c := range [][2]string{{"a", "b c"}, {"a b", "c"}, {"a%20b", "c"}, {"a", "b\x00c"}, {"a\nb", "c"}, {"a\xff", "c"}, {"a", "\xff"}, {"a", ""}, {"a ", ""}} {
		got := s.send("POST", "/?"+url.Values{"p": {c[0]}, "r": {c[1]}}.Encode(), "", "Idempotency-Key", "k")
		if got.status != 201 || seen[got.body] {
			t.Errorf("%d %q: %+v", i, c, got)
		}
		seen[got.body] = true
	}
}

// Inside of a router the scope is the route, not the path.
func TestScopeIsPattern(t *testing.T) {
	mux := http.NewServeMux()
	s := start(t, setup{around: func(next http.Handler) http.Handler {
		mux.Handle("POST /refunds/{id}", next)
		mux.Handle("/any/{id}", next)
		return mux
	}}, create)
	header := []string{"Idempotency-Key", "k"}
	for _, c := range []struct {
		method, target string
		status         int
	}{
		{"POST", "/refunds/1", 201},
		{"POST", "/refunds/1", 201},
		{"POST", "/refunds/2", 422}, // same route, another path
		{"POST", "/any/1", 201},
		{"PATCH", "/any/1", 201}, // another method is another route, also if the pattern has none
		{"PATCH", "/any/2", 422},
	} {
		if got := s.send(c.method, c.target, "", header...); got.status != c.status {
			t.Errorf("%s %s: %+v", c.method, c.target, got)
		}
	}
	if scope := s.log.last().Scope; scope != "global PATCH /any/{id}" {
		t.Errorf("scope %q", scope)
	}
	s.expect(3, "n", 3)
}

func TestMethodsThatPass(t *testing.T) {
	var had bool
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, had = oncehttp.Key(r.Context())
		w.WriteHeader(http.StatusAccepted)
	})
	m := memstore.New()
	h := oncehttp.Middleware(once.New(m, once.Config{}), oncehttp.Config{Principal: func(*http.Request) string { return "" }})(next)
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE", "REPORT"} {
		for key, want := range map[string]string{"k": "ignored", "": ""} {
			got := roundTrip(h, method, "/", "", key)
			if got.status != 202 || got.idempotency() != want || had {
				t.Errorf("%s with key %q: %+v", method, key, got)
			}
		}
	}
}

func TestHandlerHasATransactionForEveryMethod(t *testing.T) {
	m := memstore.New()
	h := oncehttp.Handler(once.New(m, once.Config{}), oncehttp.Config{Principal: oncehttp.SharedPrincipal()}, create)
	for _, c := range []struct{ method, key, status, body string }{
		{"GET", "", "ignored", "refund 1"},
		{"PUT", "k", "ignored", "refund 2"},
		{"POST", "k", "stored", "refund 3"},
		{"POST", "k", "replayed", "refund 3"},
		{"GET", "", "ignored", "refund 4"},
	} {
		if got := roundTrip(h, c.method, "/", "", c.key); got.status != 201 || got.idempotency() != c.status || got.body != c.body {
			t.Errorf("%s: %+v", c.method, got)
		}
	}
}
