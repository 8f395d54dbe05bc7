package oncehttp_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
)

func TestWriteProblem(t *testing.T) {
	w := httptest.NewRecorder()
	oncehttp.WriteProblem(w, oncehttp.Problem{
		Status: 422, Code: "VALIDATION.amount", Detail: "The amount is negative.", SafeNewKey: true,
		Errors:     []oncehttp.FieldError{{Pointer: "/amount", Detail: "must be positive"}},
		Extra:      map[string]any{"zulu": 1, "balance": "0.30", "status": 200, "a\"b": nil},
		RetryAfter: 1500 * time.Millisecond,
	})
	want := `{"title":"Unprocessable Entity","status":422,"detail":"The amount is negative.","code":"VALIDATION.amount",` +
		`"retryable":false,"safe_new_key":true,"errors":[{"pointer":"/amount","detail":"must be positive"}],"a\"b":null,"balance":"0.30","zulu":1}`
	if w.Code != 422 || w.Body.String() != want || w.Header().Get("Content-Type") != "application/problem+json" || w.Header().Get("Retry-After") != "2" {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	w = httptest.NewRecorder()
	oncehttp.WriteProblem(w, oncehttp.Problem{})
	if want := `{"title":"Internal Server Error","status":500,"retryable":false,"safe_new_key":false}`; w.Code != 500 || w.Body.String() != want {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if p := panicOf(func() {
		oncehttp.WriteProblem(w, oncehttp.Problem{Extra: map[string]any{"f": func() {}}})
	}); !strings.Contains(p, "Extra") {
		t.Error(p)
	}
}

// A problem can be read back into what it was made of.
func TestProblemRoundTrip(t *testing.T) {
	in := oncehttp.Problem{Type: "https://example.com/p", Title: "t", Status: 402, Detail: "d", Code: "PROVIDER.declined", Retryable: true, SafeNewKey: true}
	b, err := json.Marshal(in)
	var out oncehttp.Problem
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	if again, err := json.Marshal(out); err != nil || string(again) != string(b) {
		t.Errorf("%s, then %s, %v", b, again, err)
	}
}

// A handler's own problem is an answer like any other.
func TestProblemOfAHandler(t *testing.T) {
	s := start(t, setup{}, func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
		increment(tx, "n")
		oncehttp.WriteProblem(w, oncehttp.Problem{Status: 422, Code: "VALIDATION.amount", SafeNewKey: true})
	})
	first, again := s.post("k", ""), s.post("k", "")
	if first.problem(t).Code != "VALIDATION.amount" || first.body != again.body || again.idempotency() != "replayed" {
		t.Errorf("%+v, %+v", first, again)
	}
	s.expect(1, "n", 0)
}

// The table in the package documentation says what is sent.
func TestProblemTable(t *testing.T) {
	source, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for code, p := range oncehttp.Problems() {
		word := func(yes bool) string {
			if yes {
				return "yes"
			}
			return "no"
		}
		var line []string
		for l := range strings.Lines(string(source)) {
			if f := strings.Fields(l); len(f) > 1 && f[1] == string(code) {
				line = f[1:]
			}
		}
		safe := p.SafeNewKey || code == oncehttp.ProblemKeyInvalid
		want := string(code) + " " + strings.Join([]string{http.StatusText(p.Status), word(p.Retryable), word(safe)}, " ")
		if len(line) < 4 {
			t.Errorf("%s is not in the table", code)
		} else if got := string(code) + " " + strings.Join([]string{statusText(line[1]), line[2], strings.TrimSuffix(line[3], ",")}, " "); got != want {
			t.Errorf("the table says %q, it is %q", got, want)
		}
		if p.Title == "" || p.Status < 400 {
			t.Errorf("%s: %+v", code, p)
		}
	}
}

func statusText(digits string) string {
	var n int
	_ = json.Unmarshal([]byte(digits), &n)
	return http.StatusText(n)
}

func TestProblemTypesAreURLs(t *testing.T) {
	s := start(t, setup{}, create)
	if got := s.send("POST", "/", "").problem(t).Type; got != "https://oncelib.dev/problems/validation/idempotency-key-missing" {
		t.Error(got)
	}
}
