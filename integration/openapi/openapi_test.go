package openapi_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/oncehttp/openapi"
	"github.com/oncelib/once/oncehttp/refundplaybook"
	"github.com/oncelib/once/oncehttp/stripe"
	"github.com/oncelib/once/store/memstore"
)

func validatorOf(t *testing.T, doc *openapi.Document) validator.Validator {
	t.Helper()
	d, err := libopenapi.NewDocument([]byte(doc.String()))
	if err != nil {
		t.Fatal(err)
	}
	v, errs := validator.NewValidator(d)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if ok, why := v.ValidateDocument(); !ok {
		for _, e := range why {
			t.Errorf("%v: %+v", e, e.SchemaValidationErrors)
		}
	}
	schemas(t, doc.String())
	return v
}

// schemas compiles each schema of the document, at which the validator does not look.
func schemas(t *testing.T, text string) {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("doc.json", doc); err != nil {
		t.Fatal(err)
	}
	n := 0
	var walk func(at string, v any)
	walk = func(at string, v any) {
		members, _ := v.(map[string]any)
		list, _ := v.([]any)
		for i, v := range list {
			walk(fmt.Sprint(at, "/", i), v)
		}
		for name, v := range members {
			at := at + "/" + url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
			if name == "schema" || strings.HasSuffix(at, "/schemas/Problem") {
				n++
				if _, err := c.Compile("doc.json#" + at); err != nil {
					t.Error(err)
				}
			} else {
				walk(at, v)
			}
		}
	}
	walk("", doc)
	if n == 0 {
		t.Error("there is no schema in it")
	}
}

// Every kind of Config gives a document that is valid.
func TestDocumentsAreValid(t *testing.T) {
	e := once.New(memstore.New(), once.Config{})
	own := oncehttp.DefaultPreset()
	own.Methods = []string{"POST", "PUT", "DELETE"}
	own.WriteProblem = oncehttp.WriteProblem
	own.Body = func(_ string, body []byte) []byte { return body }
	own.StatusHeader, own.RetentionHeader = "", ""
	routes := map[string]oncehttp.Config{
		"POST /refunds": {Principal: oncehttp.SharedPrincipal()},
		"/orders/{id}":  {Principal: oncehttp.SharedPrincipal(), Optional: true},
		"POST /orders/{id}/items/{item}/{rest...}": {Principal: oncehttp.SharedPrincipal(), Preset: quoted(), FormField: "once"},
		"POST api.example.com/{$}":                 {Principal: oncehttp.SharedPrincipal(), Key: func(*http.Request) (string, error) { return "", nil }},
		"PUT /prices/{id}":                         {Principal: oncehttp.SharedPrincipal(), Preset: own},
		"POST /cards": {
			Principal: oncehttp.SharedPrincipal(), FormField: "once", KeyFormat: oncehttp.KeyFormat{UUID: true}, Redact: []string{"/token"},
			Compare: oncehttp.Compare{JSON: []string{"/amount"}, Form: []string{"amount"}},
		},
	}
	presets := []*oncehttp.Preset{oncehttp.DefaultPreset(), stripe.V1(), stripe.V2(), refundplaybook.Preset()}
	for _, p := range presets {
		routes["/"+p.Name+"/refunds/{id}"] = oncehttp.Config{Principal: oncehttp.SharedPrincipal(), Preset: p}
	}
	doc := openapi.New(e, routes)
	validatorOf(t, doc)
	d, err := libopenapi.NewDocument([]byte(doc.String()))
	if err != nil {
		t.Fatal(err)
	}
	model, err := d.BuildV3Model()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range presets { // what is not in the document cannot be wrong
		item := model.Model.Paths.PathItems.GetOrZero("/" + p.Name + "/refunds/{id}")
		if item == nil {
			t.Errorf("%s is not in the document", p.Name)
			continue
		}
		for _, method := range []string{"POST", "PATCH", "DELETE"} {
			if (item.GetOperations().GetOrZero(strings.ToLower(method)) != nil) != slices.Contains(p.Methods, method) {
				t.Errorf("%s: %s is documented and not keyed, or the other way round", p.Name, method)
			}
		}
	}
}

// What the document says of requests and answers is what the middleware does.
func TestTheMiddlewareKeepsItsWord(t *testing.T) {
	type fault struct {
		name, key, body string
		header          [2]string
		status          int
		valid           bool // the request, by the document
	}
	e := once.New(memstore.New(), once.Config{})
	principal := "acme"
	cfg := oncehttp.Config{Principal: func(*http.Request) string { return principal }, MaxRequest: 100, MaxStored: 200}
	doc := openapi.New(e, map[string]oncehttp.Config{"POST /refunds/{id}": cfg})
	v := validatorOf(t, doc)
	enter, leave := make(chan struct{}), make(chan struct{})
	mux := http.NewServeMux()
	mux.Handle("POST /refunds/{id}", oncehttp.Middleware(e, cfg)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch body, _ := io.ReadAll(r.Body); string(body) {
		case "fail":
			oncehttp.Fail(w, r, fmt.Errorf("broken"))
		case "large":
			fmt.Fprint(w, strings.Repeat("x", 500))
		case "wait":
			enter <- struct{}{}
			<-leave
		case "stream":
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(http.StatusOK)
		default:
			w.WriteHeader(http.StatusCreated)
			fmt.Fprint(w, `{"id":"r1"}`)
		}
	})))
	server := httptest.NewServer(mux)
	defer server.Close()
	seen := map[int]bool{}
	send := func(f fault) {
		t.Helper()
		req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, server.URL+"/refunds/1", strings.NewReader(f.body))
		if err != nil {
			t.Fatal(err)
		}
		if f.key != "-" {
			req.Header.Set("Idempotency-Key", f.key)
		}
		if f.header[0] != "" {
			req.Header.Set(f.header[0], f.header[1])
		}
		if ok, why := v.ValidateHttpRequest(req); ok != f.valid {
			t.Errorf("%s: the request is valid: %v, %v", f.name, ok, why)
		}
		req.Body = io.NopCloser(strings.NewReader(f.body))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != f.status {
			t.Errorf("%s: %d", f.name, resp.StatusCode)
		}
		if resp.StatusCode >= http.StatusBadRequest { // what a handler answers is not in the document
			seen[resp.StatusCode] = true
			if ok, why := v.ValidateHttpResponse(req, resp); !ok {
				for _, e := range why {
					t.Errorf("%s: %v %+v", f.name, e, e.SchemaValidationErrors)
				}
			}
		}
	}
	for _, f := range []fault{
		{"first", "k", "a", [2]string{}, 201, true},
		{"quoted", `"k"`, "a", [2]string{}, 201, true},
		{"other body", "k", "b", [2]string{}, 422, true},
		{"no key", "-", "a", [2]string{}, 400, false},
		{"two in one", "a,b", "a", [2]string{}, 400, false},
		{"too long", strings.Repeat("k", 256), "a", [2]string{}, 400, false},
		{"timeout", "t", "a", [2]string{"X-Request-Timeout", "soon"}, 400, true},
		{"first sent", "f", "a", [2]string{"Once-First-Sent", "1"}, 400, true},
		{"too old", "old", "a", [2]string{"Once-First-Sent", "2020-01-01T00:00:00Z"}, 412, true},
		{"too large", "l", strings.Repeat("b", 101), [2]string{}, 413, true},
		{"failed", "x", "fail", [2]string{}, 500, true},
		{"streams", "s", "stream", [2]string{}, 500, true},
		{"not kept", "big", "large", [2]string{}, 200, true},
		{"not kept, again", "big", "large", [2]string{}, 409, true},
	} {
		send(f)
	}
	done := make(chan struct{})
	go func() {
		send(fault{"holder", "w", "wait", [2]string{}, 200, true})
		close(done)
	}()
	<-enter
	send(fault{"in flight", "w", "wait", [2]string{}, 409, true})
	close(leave)
	<-done
	principal = ""
	send(fault{"nobody", "k", "a", [2]string{}, 401, true})
	for _, status := range []int{400, 401, 409, 412, 413, 422, 500} {
		if !seen[status] {
			t.Errorf("no %d was met", status)
		}
	}
	for body, status := range map[string]int{`{"status":"409"}`: 409, `{}`: 418} { // a document that allows everything proves nothing
		req := httptest.NewRequest(http.MethodPost, "/refunds/1", http.NoBody)
		resp := &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/problem+json"}}, Body: io.NopCloser(strings.NewReader(body))}
		if ok, _ := v.ValidateHttpResponse(req, resp); ok {
			t.Errorf("%d %s is in the document", status, body)
		}
	}
	if !slices.Contains(strings.Fields(doc.String()), `"503":`) {
		t.Error("no 503 in the document")
	}
}

// quoted is the preset that takes quoted keys only.
func quoted() *oncehttp.Preset {
	p := oncehttp.DefaultPreset()
	p.QuotedKeys = true
	return p
}
