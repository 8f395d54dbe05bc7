package oncehttp_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/oncehttp/canonical"
	"github.com/oncelib/once/store/memstore"
)

// asked is a request whose key is always the same.
type asked struct {
	query, contentType, body string
	header                   []string
}

func (s *service) ask(a asked) response {
	s.t.Helper()
	if a.contentType == "" {
		a.contentType = "application/json"
	}
	return s.send("POST", "/refunds"+a.query, a.body, append([]string{"Idempotency-Key", "k", "Content-Type", a.contentType}, a.header...)...)
}

// TestCompareChosenFields: which requests are the same under a Compare, and which are not. What cannot be read is compared as a whole.
func TestCompareChosenFields(t *testing.T) {
	amount := oncehttp.Compare{JSON: []string{"/amount", "/to/0/iban"}}
	const paid = `{"amount":1000,"to":[{"iban":"DE1","name":"Ada"}],"sent_at":"12:00"}`
	field := oncehttp.Compare{Form: []string{"amount", "to"}}
	tests := map[string]struct {
		compare     oncehttp.Compare
		first       asked
		same, other []asked
	}{
		"pointers": {
			amount, asked{body: paid},
			[]asked{
				{body: strings.Replace(paid, "12:00", "12:01", 1)}, {body: `{ "to": [ { "name": "Bob", "iban": "DE1" } ], "amount": 1000 }`},
				{body: strings.Replace(paid, "amount", `\u0061mount`, 1)},
			},
			[]asked{
				{body: strings.Replace(paid, "1000", "1001", 1)}, {body: strings.Replace(paid, "1000", "1000.0", 1)}, {body: strings.Replace(paid, "1000", `"1000"`, 1)},
				{body: strings.Replace(paid, "DE1", "DE2", 1)}, {body: `{"amount":1000}`}, {body: `{"amount":1000,"to":[]}`}, {body: `{"amount":1000,"to":[{"iban":null}]}`},
				{body: paid + " x"}, {body: "{}"}, {body: ""}, {body: strings.Replace(paid, `"amount":1000`, `"amount":1000,"amount":1000`, 1)},
				{body: paid, contentType: "text/plain"}, {body: paid, query: "?a=1"}, {body: paid, contentType: "application/json; charset=utf-8"},
			},
		},
		"a value that is missing": {
			amount, asked{body: `{"amount":1}`},
			[]asked{{body: `{"amount":1,"to":{}}`}},
			[]asked{{body: `{"amount":1,"to":[{"iban":null}]}`}, {body: `{"amount":1,"to":[{"iban":""}]}`}},
		},
		"a value that is null": {
			amount, asked{body: `{"amount":null}`},
			[]asked{{body: `{"amount": null,"x":1}`}},
			[]asked{{body: `{"amount":"null"}`}, {body: `{}`}, {body: `{"x":1}`}, {body: `null`}},
		},
		"none of the values":              {amount, asked{body: `{"x":1}`}, nil, []asked{{body: `{"x":2}`}, {body: `{"x": 1}`}, {body: `{"amount":1}`}}},
		"not JSON":                        {amount, asked{body: `{"amount":1,}`}, nil, []asked{{body: `{"amount":1, }`}, {body: `{"amount":1}`}}},
		"not JSON by its type":            {amount, asked{contentType: "text/plain", body: `{"amount":1}`}, nil, []asked{{contentType: "text/plain", body: `{"amount":1,"x":1}`}}},
		"a name twice":                    {amount, asked{body: `{"amount":1,"amount":2,"x":1}`}, nil, []asked{{body: `{"amount":1,"amount":2,"x":2}`}, {body: `{"amount":2,"x":1}`}}},
		"a name on the way twice":         {amount, asked{body: `{"to":[{"iban":1}],"to":[],"x":1}`}, nil, []asked{{body: `{"to":[{"iban":1}],"to":[],"x":2}`}}},
		"a name twice inside of a value":  {oncehttp.Compare{JSON: []string{"/a"}}, asked{body: `{"a":{"b":1,"b":2}}`}, []asked{{body: `{"a":{"b":1,"b":2},"x":1}`}}, []asked{{body: `{"a":{"b":2,"b":1}}`}, {body: `{"a":{"b":1, "b":2}}`}}},
		"values that change their places": {oncehttp.Compare{JSON: []string{"/a", "/b"}}, asked{body: `{"a":1}`}, nil, []asked{{body: `{"b":1}`}, {body: `{"a":1,"b":1}`}}},
		"another JSON type":               {amount, asked{contentType: "application/vnd.a+json", body: `{"amount":1}`}, []asked{{contentType: "application/vnd.a+json", body: `{"amount":1,"x":1}`}}, nil},
		"all but a pointer": {
			oncehttp.Compare{JSONExcept: []string{"/sent_at", "/meta/trace"}}, asked{body: `{"amount":1,"sent_at":"12:00","meta":{"trace":"a","x":1}}`},
			[]asked{{body: `{"amount":1,"sent_at":{"h":12},"meta":{"trace":[],"x":1}}`}},
			[]asked{
				{body: `{"amount":2,"sent_at":"12:00","meta":{"trace":"a","x":1}}`}, {body: `{"amount":1,"sent_at":"12:00","meta":{"trace":"a","x":2}}`}, {body: `{"amount":1,"meta":{"trace":"a","x":1}}`},
				{body: `{"amount": 1,"sent_at":"12:00","meta":{"trace":"a","x":1}}`}, {body: `{"amount":1,"sent_at":"12:00","sent_at":"12:00","meta":{"trace":"a","x":1}}`},
			},
		},
		"all but a pointer, not JSON": {oncehttp.Compare{JSONExcept: []string{"/sent_at"}}, asked{body: `{"sent_at":1`}, nil, []asked{{body: `{"sent_at":2`}}},
		"all but a pointer, twice":    {oncehttp.Compare{JSONExcept: []string{"/t"}}, asked{body: `{"t":1,"t":2}`}, nil, []asked{{body: `{"t":1,"t":3}`}}},
		"headers": {
			oncehttp.Compare{Headers: []string{"x-version", "X-Tag"}}, asked{body: "1", header: []string{"X-Version", "1", "X-Tag", "a", "X-Tag", "b"}},
			[]asked{{body: "1", header: []string{"X-Version", "1", "X-Tag", "a", "X-Tag", "b", "X-Other", "2"}}},
			[]asked{
				{body: "1", header: []string{"X-Version", "2", "X-Tag", "a", "X-Tag", "b"}}, {body: "1", header: []string{"X-Version", "1", "X-Tag", "b", "X-Tag", "a"}},
				{body: "1", header: []string{"X-Version", "1", "X-Tag", "a"}}, {body: "1"}, {body: "2", header: []string{"X-Version", "1", "X-Tag", "a", "X-Tag", "b"}},
			},
		},
		"query parameters": {
			oncehttp.Compare{Query: []string{"to", "mode"}}, asked{body: "1", query: "?to=a&to=b&utm=x"},
			[]asked{{body: "1", query: "?utm=y&to=a&to=%62"}, {body: "1", query: "?to=a&to=b"}},
			[]asked{{body: "1", query: "?to=b&to=a"}, {body: "1", query: "?to=a"}, {body: "1", query: "?to=a&to=b&mode="}, {body: "1", query: "?to=a&to=b&utm=%zz"}, {body: "1", query: "?to=a;to=b"}, {body: "2", query: "?to=a&to=b"}},
		},
		"a query that cannot be read": {oncehttp.Compare{Query: []string{"to"}}, asked{query: "?to=a&x=%zz"}, nil, []asked{{query: "?to=a&y=%zz"}, {query: "?to=a"}}},
		"form fields": {
			field, asked{contentType: urlencoded, body: "amount=1&to=a&to=b&at=12"},
			[]asked{{contentType: urlencoded, body: "at=13&to=a&to=b&amount=%31"}},
			[]asked{{contentType: urlencoded, body: "amount=1&to=b&to=a"}, {contentType: urlencoded, body: "amount=1"}, {contentType: urlencoded, body: "amount=1&to=a&to=b&x=%zz"}, {contentType: urlencoded, body: "at=12"}, {contentType: urlencoded}, {contentType: "text/plain", body: "amount=1&to=a&to=b"}},
		},
		"a form without the fields": {field, asked{contentType: urlencoded, body: "x=1"}, nil, []asked{{contentType: urlencoded, body: "x=2"}}},
		"JSON where a form is read": {field, asked{body: `{"amount":1,"x":1}`}, nil, []asked{{body: `{"amount":1,"x":2}`}}},
		"the host":                  {oncehttp.Compare{Headers: []string{"Host"}}, asked{}, []asked{{}}, nil},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			s := start(t, setup{Config: oncehttp.Config{Compare: c.compare}}, create)
			if got := s.ask(c.first); got.status != 201 {
				t.Fatalf("%+v", got)
			}
			for _, a := range append(c.same, c.first) {
				if got := s.ask(a); got.idempotency() != "replayed" || got.body != "refund 1" {
					t.Errorf("the same: %+v: %+v", a, got)
				}
			}
			for _, a := range c.other {
				if got := s.ask(a); got.status != 422 || got.problem(t).Code != oncehttp.ProblemMismatch {
					t.Errorf("another one: %+v: %+v", a, got)
				}
			}
			s.expect(1, "n", 1)
		})
	}
}

// TestCompareAfterTheForm was parsed by middleware outside, and with a dialect that reads bodies in its own way.
func TestCompareAfterTheForm(t *testing.T) {
	parse := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = r.ParseForm()
			next.ServeHTTP(w, r)
		})
	}
	s := start(t, setup{Config: oncehttp.Config{Compare: oncehttp.Compare{Form: []string{"amount"}}}, around: parse}, create)
	for body, want := range map[string]int{"amount=1&x=1": 201, "amount=1&x=2": 201} {
		if got := s.ask(asked{contentType: urlencoded, body: body}); got.status != want {
			t.Errorf("%s: %+v", body, got)
		}
	}
	if got := s.ask(asked{contentType: urlencoded, body: "amount=2&x=1"}); got.status != 422 {
		t.Errorf("%+v", got)
	}
	s.expect(1, "n", 1)
	preset := oncehttp.DefaultPreset()
	preset.Name, preset.Body = "by value", canonical.JSON
	s = start(t, setup{Config: oncehttp.Config{Preset: preset, Compare: oncehttp.Compare{JSONExcept: []string{"/at"}}}}, create)
	for _, body := range []string{`{"a":1,"at":1}`, `{"at": 2, "a": 1}`} {
		if got := s.ask(asked{body: body}); got.status != 201 {
			t.Errorf("%s: %+v", body, got)
		}
	}
	if p := s.ask(asked{body: `{"a":2,"at":1}`}).problem(t); !strings.Contains(p.Detail, "body (as the dialect by value reads it) (of JSON all but /at) are compared") {
		t.Error(p.Detail)
	}
	s.expect(1, "n", 1)
}

// TestCompareWithLargeBodies: what Compare says of headers and queries goes with bodies in files, and they are compared as in memory.
func TestCompareWithLargeBodies(t *testing.T) {
	compare := oncehttp.Compare{Query: []string{"to"}}
	store := memstore.New()
	engine := once.New(store, once.Config{Observer: once.Discard})
	handle := func(memory int64) http.Handler {
		return oncehttp.Handler(engine, oncehttp.Config{Principal: oncehttp.SharedPrincipal(), Compare: compare, MaxMemory: memory}, create)
	}
	large := strings.Repeat("x", 100)
	for i, h := range []http.Handler{handle(0), handle(10)} {
		if got := roundTrip(h, "POST", fmt.Sprintf("/x?to=a&i=%d", i), large, "k"); got.status != 201 || got.body != "refund 1" {
			t.Errorf("%+v", got)
		}
		if got := roundTrip(h, "POST", "/x?to=a", large+"y", "k"); got.status != 422 {
			t.Errorf("%+v", got)
		}
	}
}

// TestAnotherCompare: a retry that comes after its route has got another rule is not refused, nor after the rule was taken away. The
// order in which a rule names things is no other rule.
func TestAnotherCompare(t *testing.T) {
	store := memstore.New()
	engine := once.New(store, once.Config{Observer: once.Discard})
	send := func(c oncehttp.Compare, body string) int {
		r := httptest.NewRequest(http.MethodPost, "/refunds", strings.NewReader(body))
		r.Header.Set("Idempotency-Key", "k")
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		oncehttp.Handler(engine, oncehttp.Config{Principal: oncehttp.SharedPrincipal(), Compare: c}, create).ServeHTTP(w, r)
		if n, _ := store.Get("n"); n != "1" {
			t.Errorf("%s effects", n)
		}
		return w.Code
	}
	rule := func(json ...string) oncehttp.Compare { return oncehttp.Compare{JSON: json} }
	const body = `{"amount":1,"to":"a","at":1}`
	if got := send(rule("/amount", "/to"), body); got != 201 {
		t.Fatal(got)
	}
	for _, c := range []oncehttp.Compare{{}, rule("/amount"), rule("/amount", "/to", "/at"), {JSONExcept: []string{"/amount", "/to"}}, {Headers: []string{"X-A"}, JSON: []string{"/amount", "/to"}}, {Form: []string{"/amount", "/to"}}, {Query: []string{"/amount", "/to"}}} {
		if got := send(c, body); got != 201 {
			t.Errorf("%+v: %d", c, got)
		}
	}
	for _, c := range []oncehttp.Compare{rule("/to", "/amount"), rule("/amount", "/to", "/to")} {
		if got := send(c, strings.Replace(body, `"a"`, `"b"`, 1)); got != 422 {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// TestFingerprintsOfRulesStay: they are stored, and one rule must give a request the same one in every version.
func TestFingerprintsOfRulesStay(t *testing.T) {
	for want, c := range map[string]struct {
		compare           oncehttp.Compare
		contentType, body string
	}{
		"0240bc29ac3efc0b60d68f215e6ad11997417fcd02539a25c3932ccd77517c2e69": {oncehttp.Compare{JSON: []string{"/b", "/a"}, Headers: []string{"x-a"}}, "application/json", `{"a": {"y":1,"x":"\u0061"}}`},
		"024c6f13aa7e12751d842a8e3f62543c09e7a0dccd06804fac4dad3bf9a7dd5b10": {oncehttp.Compare{JSON: []string{"/b"}, Query: []string{"q"}}, "text/plain", "b"},
		"02f91aca6e4c8513b68e9d1ffc7f16ddc29c7c148962ce86d3e054b7bc81f8e1b1": {oncehttp.Compare{JSONExcept: []string{"/at"}}, "application/json", `{"at":1}`},
		"0258ce43c5d3c3a746284b488aa63751c0070e7ad4cb76d9aaf2091513519aa873": {oncehttp.Compare{Form: []string{"a"}}, urlencoded, "a=1&b=2"},
	} {
		route := oncehttp.NewRoute(once.New(memstore.New(), once.Config{}), oncehttp.Config{Principal: oncehttp.SharedPrincipal(), Compare: c.compare})
		r := httptest.NewRequest(http.MethodPost, "/refunds?q=1", strings.NewReader(c.body))
		r.Header.Set("Idempotency-Key", "k")
		r.Header.Set("Content-Type", c.contentType)
		r.Header.Set("X-A", "1")
		x, ok := route.Read(httptest.NewRecorder(), r)
		if !ok {
			t.Fatal("the request was refused")
		}
		if got := hex.EncodeToString(x.Operation.Fingerprint[:]); got != want {
			t.Errorf("%+v: %s, it was %s", c.compare, got, want)
		}
		_ = x.Close()
	}
}

// TestLeasedWorkUnderAnotherCompare is taken over by a retry that comes after the deployment, and by none that asks for something else.
func TestLeasedWorkUnderAnotherCompare(t *testing.T) {
	store := memstore.New()
	runs := 0
	send := func(c oncehttp.Compare, body string) int {
		e := once.New(lease.New(store, lease.Config{TTL: time.Minute}), once.Config{Observer: once.Discard})
		h := oncehttp.Handler(e, oncehttp.Config{Principal: oncehttp.SharedPrincipal(), Compare: c}, func(w http.ResponseWriter, r *http.Request, run *lease.Run) {
			runs++
			n, err := lease.InTx(r.Context(), run, store, "reserve", func(_ context.Context, tx *memstore.Tx) (int, error) { return increment(tx, "n"), nil })
			if err != nil || n != 1 || runs == 1 {
				oncehttp.Fail(w, r, errors.New("the process is about to end")) // behind a phase
			}
		})
		r := httptest.NewRequest(http.MethodPost, "/refunds", strings.NewReader(body))
		r.Header.Set("Idempotency-Key", "k")
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	if got := send(oncehttp.Compare{JSON: []string{"/a"}}, `{"a":1,"b":1}`); got != 500 {
		t.Fatal(got)
	}
	if got := send(oncehttp.Compare{JSON: []string{"/a"}}, `{"a":2,"b":1}`); got != 422 || runs != 1 {
		t.Errorf("%d after %d runs", got, runs)
	}
	if got := send(oncehttp.Compare{JSON: []string{"/a", "/b"}}, `{"a":1,"b":1}`); got != 200 || runs != 2 {
		t.Errorf("%d after %d runs", got, runs)
	}
}

// TestMismatchSaysWhatIsCompared to the client whose request differs.
func TestMismatchSaysWhatIsCompared(t *testing.T) {
	for want, c := range map[string]oncehttp.Compare{
		"Method, route, path, query, content type and body are compared, and no other header.":                   {},
		"Method, route, path, the query parameters to, the headers X-A, X-B, content type and body are compared": {Query: []string{"to"}, Headers: []string{"X-A", "X-B"}},
		"Method, route, path, query, content type and body (of JSON only /a, /b) are compared":                   {JSON: []string{"/a", "/b"}},
		"Method, route, path, query, content type and body (of a form only a) are compared":                      {Form: []string{"a"}},
		"Method, route, path, query, content type and body (of JSON only /a, of a form only a) are compared":     {JSON: []string{"/a"}, Form: []string{"a"}},
		"Method, route, path, query, content type and body (of JSON all but /at) are compared":                   {JSONExcept: []string{"/at"}},
	} {
		s := start(t, setup{Config: oncehttp.Config{Compare: c}}, create)
		s.post("k", "1")
		if p := s.post("k", "2").problem(t); !strings.Contains(p.Detail, want) {
			t.Errorf("%q, want %q", p.Detail, want)
		}
	}
}

// TestInvalidRoutes: what cannot be meant is refused at start.
func TestInvalidRoutes(t *testing.T) {
	for want, c := range map[string]oncehttp.Config{
		"Compare.JSON and Compare.JSONExcept":      {Compare: oncehttp.Compare{JSON: []string{"/a"}, JSONExcept: []string{"/b"}}},
		`"amount", which is not a JSON`:            {Compare: oncehttp.Compare{JSON: []string{"amount"}}},
		`"/~", which is not a JSON`:                {Compare: oncehttp.Compare{JSONExcept: []string{"/~"}}},
		`"", which means the whole body`:           {Redact: []string{""}},
		"Redact has":                               {Redact: []string{"token"}},
		"Compare.Headers contains Once-Attempt":    {Compare: oncehttp.Compare{Headers: []string{"once-attempt"}}},
		"Compare.Headers contains Authorization":   {Compare: oncehttp.Compare{Headers: []string{"authorization"}}},
		"Compare.Headers contains Idempotency-Key": {Compare: oncehttp.Compare{Headers: []string{"Idempotency-Key"}}},
		"Compare.Headers has an empty name":        {Compare: oncehttp.Compare{Headers: []string{""}}},
		"Compare.Query or Compare.Form":            {Compare: oncehttp.Compare{Form: []string{""}}},
		"a Compare of body fields":                 {Compare: oncehttp.Compare{JSON: []string{"/a"}}, MaxMemory: 1},
		"KeyFormat has the bounds 9 and 8":         {KeyFormat: oncehttp.KeyFormat{MinLength: 9, MaxLength: 8}},
		"KeyFormat has the bounds 0 and 256":       {KeyFormat: oncehttp.KeyFormat{MaxLength: 256}},
		"KeyFormat has the bounds -1 and 255":      {KeyFormat: oncehttp.KeyFormat{MinLength: -1}},
		"KeyFormat has UUID and bounds of the":     {KeyFormat: oncehttp.KeyFormat{UUID: true, MinLength: 1}},
	} {
		c.Principal = oncehttp.SharedPrincipal()
		if got := panicOf(func() { oncehttp.NewRoute(once.New(memstore.New(), once.Config{}), c) }); !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
