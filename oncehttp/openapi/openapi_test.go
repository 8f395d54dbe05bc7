package openapi_test

// The tests with databases are in integration/openapi: "make test-of DIR=oncehttp/openapi" runs them after these.

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/oncehttp/openapi"
	"github.com/oncelib/once/oncehttp/refundplaybook"
	"github.com/oncelib/once/oncehttp/stripe"
	"github.com/oncelib/once/store/memstore"
)

// What clients must know of a route can be printed, served, and merged into the document
// of the service.
func ExampleNew() {
	engine := once.New(memstore.New(), once.Config{})
	cfg := oncehttp.Config{Principal: oncehttp.SharedPrincipal(), Retain: 48 * time.Hour}
	doc := openapi.New(engine, map[string]oncehttp.Config{"POST /charges/{id}/refunds": cfg})

	mux := http.NewServeMux()
	mux.Handle("GET /idempotency.json", doc)

	var op struct {
		Paths map[string]map[string]struct {
			Rules struct {
				Retention   int `json:"retention_seconds"`
				Fingerprint struct{ Of []string }
			} `json:"x-idempotency"` //nolint:tagliatelle // an extension of OpenAPI begins with x-
			Responses map[string]struct{ Description string }
		}
	}
	_ = json.Unmarshal([]byte(doc.String()), &op)
	refunds := op.Paths["/charges/{id}/refunds"]["post"]
	fmt.Println(refunds.Rules.Retention, refunds.Rules.Fingerprint.Of)
	fmt.Println(refunds.Responses["422"].Description)
	// Output:
	// 172800 [method route path query content type body]
	// One of: CONFLICT.idempotency.mismatch.
}

func panicOf(f func()) (text string) {
	defer func() { text = fmt.Sprint(recover()) }()
	f()
	return ""
}

func TestDocumentOfSeveralRoutes(t *testing.T) {
	e := once.New(memstore.New(), once.Config{})
	cfg := oncehttp.Config{Principal: oncehttp.SharedPrincipal()}
	other := oncehttp.DefaultPreset()
	other.Problems = map[oncehttp.ProblemCode]int{oncehttp.ProblemMismatch: 400}
	other.WriteProblem = oncehttp.WriteProblem
	other.Methods = append(other.Methods, "DELETE")
	quoted := oncehttp.DefaultPreset()
	quoted.QuotedKeys = true
	doc := openapi.New(e, map[string]oncehttp.Config{
		"example.com/a/{id}/{rest...}": cfg,
		"POST /b/{$}":                  {Principal: oncehttp.SharedPrincipal(), Optional: true, Preset: quoted, FormField: "once"},
		"DELETE /c":                    {Principal: oncehttp.SharedPrincipal(), Preset: other},
	})
	w := httptest.NewRecorder()
	doc.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Body.String() != doc.String() || w.Header().Get("Content-Type") != "application/json" {
		t.Error(w.Header(), w.Body)
	}
	text := doc.String()
	if again := openapi.New(e, map[string]oncehttp.Config{}); again.String() == text {
		t.Error("nothing in it")
	}
	var d struct {
		Paths map[string]map[string]struct {
			Parameters []struct {
				Name, In string
				Required bool
				Schema   struct{ Pattern string }
			}
			Responses map[string]struct {
				Codes   []struct{ Code, Type string } `json:"x-problems"` //nolint:tagliatelle // as above
				Content map[string]any
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	a, b, c := d.Paths["/a/{id}/{rest}"], d.Paths["/b/"]["post"], d.Paths["/c"]
	if len(a) != 2 || len(a["patch"].Parameters) != 6 || !a["post"].Parameters[2].Required || a["post"].Responses["422"].Content == nil {
		t.Errorf("%+v", a)
	}
	if b.Parameters[0].Required || strings.Contains(b.Parameters[0].Schema.Pattern, "|\"") || strings.Contains(fmt.Sprint(b.Responses["400"].Codes), string(oncehttp.ProblemKeyMissing)) {
		t.Errorf("%+v", b)
	}
	if len(c) != 1 || !strings.Contains(fmt.Sprint(c["delete"].Responses["400"].Codes), string(oncehttp.ProblemMismatch)) || c["delete"].Responses["400"].Content != nil {
		t.Errorf("%+v", c)
	}
	problems := oncehttp.NewRoute(e, cfg).Problems()
	for _, p := range problems {
		if !strings.Contains(text, string(p.Code)) {
			t.Errorf("%s is not described", p.Code)
		}
	}
	if len(problems) < 20 {
		t.Errorf("vacuous: %d problems", len(problems))
	}
	for pattern, cfg := range map[string]oncehttp.Config{"GET /": cfg, "POST /": {}} {
		if p := panicOf(func() { openapi.New(e, map[string]oncehttp.Config{pattern: cfg}) }); !strings.Contains(p, "\nTry: ") {
			t.Errorf("%s: %q", pattern, p)
		}
	}
}

// documented is what a document says of one path, by method.
func documented(t *testing.T, cfg oncehttp.Config) map[string]any {
	t.Helper()
	doc := openapi.New(once.New(memstore.New(), once.Config{}), map[string]oncehttp.Config{"POST /x": cfg})
	var d struct {
		Paths map[string]map[string]map[string]any
	}
	if err := json.Unmarshal([]byte(doc.String()), &d); err != nil {
		t.Fatal(err)
	}
	return d.Paths["/x"]["post"]
}

// at follows names through objects, and numbers through arrays.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

// A document says what the dialect does: what a key is unique within, how it is written,
// and what a problem tells of retries.
func TestDocumentOfDialects(t *testing.T) {
	route := func(*http.Request) string { return "r" }
	own := oncehttp.DefaultPreset()
	own.Route = route
	for name, c := range map[string]struct {
		cfg     oncehttp.Config
		scope   string
		example string
		hint    string
	}{
		"default":   {oncehttp.Config{}, "[caller route]", `"`, ""},
		"stripe":    {oncehttp.Config{Preset: stripe.V1()}, "[account]", "8", "Stripe-Should-Retry"},
		"stripe 2":  {oncehttp.Config{Preset: stripe.V2()}, "[account]", "8", "Stripe-Should-Retry"},
		"overruled": {oncehttp.Config{Preset: stripe.V1(), Route: route}, "[caller custom]", "8", "Stripe-Should-Retry"},
		"own":       {oncehttp.Config{Preset: own}, "[caller custom]", `"`, ""},
		"playbook":  {oncehttp.Config{Preset: refundplaybook.Preset()}, "[caller route]", `"`, ""},
	} {
		c.cfg.Principal = oncehttp.SharedPrincipal()
		op := documented(t, c.cfg)
		if got := fmt.Sprint(at(op, "x-idempotency", "scope")); got != c.scope {
			t.Errorf("%s: scope %s", name, got)
		}
		if got, _ := at(op, "parameters", 0, "example").(string); !strings.HasPrefix(got, c.example) {
			t.Errorf("%s: example %s", name, got)
		}
		headers, _ := at(op, "responses", "409", "headers").(map[string]any)
		if _, ok := headers[c.hint]; ok != (c.hint != "") {
			t.Errorf("%s: a problem has %v", name, headers)
		}
		if op["requestBody"] != nil {
			t.Errorf("%s: %v", name, op["requestBody"])
		}
	}
}

func TestDocumentOfForms(t *testing.T) {
	cfg := oncehttp.Config{Principal: oncehttp.SharedPrincipal(), FormField: "once"}
	schema := []any{"requestBody", "content", "multipart/form-data", "schema"}
	op := documented(t, cfg)
	if form := at(op, schema...); at(form, "properties", "once", "maxLength") != float64(once.MaxKey) || at(form, "required") != nil {
		t.Errorf("%v", form)
	}
	cfg.Preset = oncehttp.DefaultPreset()
	cfg.Preset.KeyHeaders = nil
	if form := at(documented(t, cfg), schema...); fmt.Sprint(at(form, "required")) != "[once]" {
		t.Errorf("without headers: %v", form)
	}
}

// TestDocumentOfARoute: a document says what is compared, and of which form keys are and what is not stored.
func TestDocumentOfARoute(t *testing.T) {
	cfg := oncehttp.Config{
		Principal: oncehttp.SharedPrincipal(), FormField: "once", Redact: []string{"/card/token"},
		KeyFormat: oncehttp.KeyFormat{UUID: true, Check: func(string) error { return nil }},
		Compare:   oncehttp.Compare{Headers: []string{"X-Version"}, Query: []string{"to"}, JSON: []string{"/amount"}, Form: []string{"amount"}},
	}
	op := documented(t, cfg)
	rules := op["x-idempotency"]
	for _, c := range []struct {
		want string
		path []any
	}{
		{"[X-Version]", []any{"fingerprint", "headers"}}, {"[to]", []any{"fingerprint", "query"}}, {"[/amount]", []any{"fingerprint", "json"}}, {"[amount]", []any{"fingerprint", "form"}},
		{"<nil>", []any{"fingerprint", "json_except"}}, {"[/card/token]", []any{"redacted"}}, {"uuid", []any{"key", "format"}}, {"36", []any{"key", "max_bytes"}}, {"true", []any{"key", "checked"}},
	} {
		if got := fmt.Sprint(at(rules, c.path...)); got != c.want {
			t.Errorf("%v: %s, want %s", c.path, got, c.want)
		}
	}
	if at(op, "responses", "2XX", "headers", "Idempotency-Redacted") == nil || !strings.Contains(fmt.Sprint(at(op, "responses", "2XX", "description")), "null in the place of /card/token") {
		t.Errorf("%v", at(op, "responses", "2XX"))
	}
	if key := at(op, "requestBody", "content", "multipart/form-data", "schema", "properties", "once"); at(key, "minLength") != 36.0 || at(key, "pattern") == nil {
		t.Errorf("%v", key)
	}
	cfg.Compare, cfg.KeyFormat = oncehttp.Compare{JSONExcept: []string{"/at"}}, oncehttp.KeyFormat{MinLength: 8, MaxLength: 20}
	rules = documented(t, cfg)["x-idempotency"]
	if fmt.Sprint(at(rules, "fingerprint", "json_except"), at(rules, "key", "min_bytes"), at(rules, "key", "max_bytes")) != "[/at] 8 20" {
		t.Errorf("%v", rules)
	}
}

// TestKeyPatterns: the pattern in the document accepts what the route does, for each form of keys.
func TestKeyPatterns(t *testing.T) {
	const uuid = "8e03978e-40d5-43e8-bc93-6894a57f9324"
	keys := []string{"a", "ab", "abc", "abcd", "abcde", "a b", "a'b", "a,b", `"a"`, `"ab"`, `"abcd"`, `"abcde"`, `"a\"bc"`, uuid, `"` + uuid + `"`, strings.ToUpper(uuid), uuid[:35] + "A", uuid[1:], strings.Repeat("k", 255), strings.Repeat("k", 256)}
	for _, f := range []oncehttp.KeyFormat{{}, {UUID: true}, {MinLength: 3}, {MinLength: 2, MaxLength: 4}, {MaxLength: 1}, {MinLength: 1, MaxLength: 2}, {MinLength: 255}} {
		for _, preset := range []*oncehttp.Preset{oncehttp.DefaultPreset(), stripe.V1()} {
			cfg := oncehttp.Config{Principal: oncehttp.SharedPrincipal(), KeyFormat: f, Preset: preset}
			pattern, _ := at(documented(t, cfg), "parameters", 0, "schema", "pattern").(string)
			matches := regexp.MustCompile(pattern)
			h := oncehttp.Handler(once.New(memstore.New(), once.Config{Observer: once.Discard}), cfg, func(http.ResponseWriter, *http.Request, *memstore.Tx) {})
			for _, key := range keys {
				r, w := httptest.NewRequest(http.MethodPost, "/x", nil), httptest.NewRecorder()
				r.Header.Set("Idempotency-Key", key)
				h.ServeHTTP(w, r)
				if accepted := w.Code == http.StatusOK; accepted != matches.MatchString(key) {
					t.Errorf("%+v, %s: %s is answered with %d, the pattern is %s", f, preset.Name, key, w.Code, pattern)
				}
			}
		}
	}
}

// TestDocumentOfAnUndo: the key is in a header of its own, and the answer says whether there was something to undo.
func TestDocumentOfAnUndo(t *testing.T) {
	op := documented(t, oncehttp.Config{Principal: oncehttp.SharedPrincipal(), Undoes: "POST /deposits", FormField: "once", Optional: true})
	key, _ := at(op, "parameters").([]any)
	if len(key) == 0 || at(key[0], "name") != "Once-Undoes" || at(key[0], "required") != true || !strings.Contains(fmt.Sprint(key[0]), "POST /deposits") || op["requestBody"] != nil {
		t.Errorf("%v", op)
	}
	if said := fmt.Sprint(at(op, "responses", "2XX", "headers", "Idempotency-Status", "schema", "enum")); !strings.HasSuffix(said, " undone nothing]") {
		t.Error(said)
	}
}

// Hosts are not part of a document, and no pattern replaces another one unnoticed.
func TestHostsAreNotInTheDocument(t *testing.T) {
	e := once.New(memstore.New(), once.Config{})
	cfg := func(bytes int64) oncehttp.Config {
		return oncehttp.Config{Principal: oncehttp.SharedPrincipal(), MaxRequest: bytes}
	}
	for _, host := range []string{"", "a.example"} {
		doc := openapi.New(e, map[string]oncehttp.Config{"POST " + host + "/x": cfg(3), host + "/x": cfg(4)}).String()
		var d struct {
			Paths map[string]map[string]map[string]any
		}
		if err := json.Unmarshal([]byte(doc), &d); err != nil {
			t.Fatal(err)
		}
		for method, want := range map[string]float64{"post": 3, "patch": 4} {
			if got := at(d.Paths["/x"][method], "x-idempotency", "max_request_bytes"); got != want {
				t.Errorf("host %q, %s: %v", host, method, got)
			}
		}
	}
	for _, patterns := range [][2]string{
		{"POST a.example/x", "POST b.example/x"}, {"POST a.example/x", "/x"}, {"POST /x", "POST a.example/x"}, {"a.example/x", "b.example/x"}, {"/x/", "/x/{$}"},
	} {
		p := panicOf(func() { openapi.New(e, map[string]oncehttp.Config{patterns[0]: cfg(1), patterns[1]: cfg(2)}) })
		if !strings.Contains(p, patterns[0]) || !strings.Contains(p, patterns[1]) || !strings.Contains(p, "\nTry: ") {
			t.Errorf("%q: %q", patterns, p)
		}
	}
}

// Two templates of one path are one path, and a method that OpenAPI does not know does not make
// the document invalid.
func TestPathsOfOneTemplate(t *testing.T) {
	e := once.New(memstore.New(), once.Config{})
	query := oncehttp.DefaultPreset()
	query.Methods = []string{"POST", "QUERY", "post"}
	one := oncehttp.Config{Principal: oncehttp.SharedPrincipal()}
	doc := openapi.New(e, map[string]oncehttp.Config{
		"POST /a/{id}/b/{item}":        one,
		"PATCH /a/{order}/b/{part...}": one,
		"POST /a/{order}":              one,
		"/c":                           {Principal: oncehttp.SharedPrincipal(), Preset: query},
	}).String()
	var d struct {
		Paths map[string]map[string]map[string]any
	}
	if err := json.Unmarshal([]byte(doc), &d); err != nil {
		t.Fatal(err)
	}
	item := d.Paths["/a/{order}/b/{part}"]
	if len(d.Paths) != 3 || len(item) != 2 {
		t.Fatalf("%d paths: %s", len(d.Paths), doc)
	}
	for _, method := range []string{"post", "patch"} {
		if a, b := at(item[method], "parameters", 0, "name"), at(item[method], "parameters", 1, "name"); a != "order" || b != "part" {
			t.Errorf("%s has the parameters %v and %v", method, a, b)
		}
		if last := at(item[method], "parameters", 5, "name"); last != "Once-Attempt" {
			t.Errorf("%s: the last parameter is %v", method, last)
		}
	}
	c := d.Paths["/c"]
	others := c["x-additional-operations"]
	if len(c) != 2 || at(c["post"], "x-idempotency") == nil || len(others) != 2 || at(others, "QUERY", "x-idempotency") == nil || at(others, "post", "x-idempotency") == nil {
		t.Errorf("%v", c)
	}
	p := panicOf(func() {
		openapi.New(e, map[string]oncehttp.Config{"POST /x/{id}": one, "POST /x/{rest...}": one})
	})
	if !strings.Contains(p, "POST /x/{id}") || !strings.Contains(p, "POST /x/{rest...}") || !strings.Contains(p, "\nTry: ") {
		t.Errorf("%q", p)
	}
}

// The pattern of the key says what the middleware accepts, and no more.
func FuzzKeyPattern(f *testing.F) {
	for _, key := range []string{"k", `"k"`, `"a\"b\\"`, `a;b`, `a"`, `""`, strings.Repeat("k", 255), strings.Repeat("k", 256), "a b", " a", "ü", `a\b`} {
		f.Add(key)
	}
	pattern := openapi.KeyPattern()
	f.Fuzz(func(t *testing.T, key string) {
		if strings.Trim(key, " \t") != key || strings.HasPrefix(key, `"`) && strings.ContainsAny(key, ";") {
			return // what surrounds a key is not described
		}
		if _, err := wire.ParseKey(key, false); (err == nil) != pattern.MatchString(key) {
			t.Errorf("%q: %v", key, err)
		}
	})
}
