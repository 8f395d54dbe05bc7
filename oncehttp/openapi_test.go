package oncehttp_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
)

// What clients must know of a route can be printed, served, and merged into the document
// of the service.
func ExampleOpenAPI() {
	engine := once.New(memstore.New(), once.Config{})
	cfg := oncehttp.Config{Principal: oncehttp.Global(), Retain: 48 * time.Hour}
	doc := oncehttp.OpenAPI(engine, map[string]oncehttp.Config{"POST /charges/{id}/refunds": cfg})

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

func TestOpenAPI(t *testing.T) {
	e := once.New(memstore.New(), once.Config{})
	cfg := oncehttp.Config{Principal: oncehttp.Global()}
	other := oncehttp.Default()
	other.Problems = map[string]int{oncehttp.CodeMismatch: 400}
	other.WriteProblem = oncehttp.WriteProblem
	other.Methods = append(other.Methods, "DELETE")
	doc := oncehttp.OpenAPI(e, map[string]oncehttp.Config{
		"example.com/a/{id}/{rest...}": cfg,
		"POST /b/{$}":                  {Principal: oncehttp.Global(), Optional: true, Strict: true, FormField: "once"},
		"DELETE /c":                    {Principal: oncehttp.Global(), Preset: other},
	})
	w := httptest.NewRecorder()
	doc.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Body.String() != doc.String() || w.Header().Get("Content-Type") != "application/json" {
		t.Error(w.Header(), w.Body)
	}
	text := doc.String()
	if again := oncehttp.OpenAPI(e, map[string]oncehttp.Config{}); again.String() == text {
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
	if len(a) != 2 || len(a["patch"].Parameters) != 5 || !a["post"].Parameters[2].Required || a["post"].Responses["422"].Content == nil {
		t.Errorf("%+v", a)
	}
	if b.Parameters[0].Required || strings.Contains(b.Parameters[0].Schema.Pattern, "|\"") || strings.Contains(fmt.Sprint(b.Responses["400"].Codes), oncehttp.CodeKeyMissing) {
		t.Errorf("%+v", b)
	}
	if len(c) != 1 || !strings.Contains(fmt.Sprint(c["delete"].Responses["400"].Codes), oncehttp.CodeMismatch) || c["delete"].Responses["400"].Content != nil {
		t.Errorf("%+v", c)
	}
	for code := range oncehttp.Problems() {
		if !strings.Contains(text, code) {
			t.Errorf("%s is not described", code)
		}
	}
	for pattern, cfg := range map[string]oncehttp.Config{"GET /": cfg, "POST /": {}} {
		if p := panicOf(func() { oncehttp.OpenAPI(e, map[string]oncehttp.Config{pattern: cfg}) }); !strings.Contains(p, "\nTry: ") {
			t.Errorf("%s: %q", pattern, p)
		}
	}
}

// The pattern of the key says what the middleware accepts, and no more.
func FuzzOpenAPIKeyPattern(f *testing.F) {
	for _, key := range []string{"k", `"k"`, `"a\"b\\"`, `a;b`, `a"`, `""`, strings.Repeat("k", 255), strings.Repeat("k", 256), "a b", " a", "ü", `a\b`} {
		f.Add(key)
	}
	pattern := oncehttp.KeyPattern()
	f.Fuzz(func(t *testing.T, key string) {
		if strings.Trim(key, " \t") != key || strings.HasPrefix(key, `"`) && strings.ContainsAny(key, ";") {
			return // what surrounds a key is not described
		}
		if _, err := oncehttp.ParseKey(key); (err == nil) != pattern.MatchString(key) {
			t.Errorf("%q: %v", key, err)
		}
	})
}
