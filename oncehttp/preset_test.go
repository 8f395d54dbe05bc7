package oncehttp_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// A dialect in the manner of an older payment API: POST only, 500 is an answer like
// any other, mismatch is 400, errors have a shape of their own.
func TestPresetOfAnotherDialect(t *testing.T) {
	p := oncehttp.DefaultPreset()
	p.Name = "another"
	p.Methods = []string{"POST"}
	p.KeyHeaders = []string{"request-id"}
	p.Verdicts = map[int]oncehttp.Verdict{2: oncehttp.VerdictCommit, 4: oncehttp.VerdictAnswerOnly, 5: oncehttp.VerdictAnswerOnly, 429: oncehttp.VerdictDiscard}
	p.Problems = map[oncehttp.ProblemCode]int{oncehttp.ProblemMismatch: 400, oncehttp.ProblemKeyMissing: 428}
	p.StatusHeader, p.RetentionHeader, p.ReplayedHeader = "", "", "original-Request"
	p.Retain = 24 * time.Hour
	p.WriteProblem = func(w http.ResponseWriter, p oncehttp.Problem) {
		w.Header().Set("Error-Code", string(p.Code))
		w.WriteHeader(p.Status)
		fmt.Fprintf(w, `{"error":{"message":%q}}`, p.Title)
	}
	status := 500
	s := start(t, setup{Config: oncehttp.Config{Preset: p}}, func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
		answers(status)(w, r, tx)
	})
	key := []string{"Request-Id", "k"}
	if got := s.send("POST", "/", "a", key...); got.status != 500 || got.header.Get("Original-Request") != "" {
		t.Errorf("%+v", got)
	}
	if got := s.send("POST", "/", "a", key...); got.status != 500 || got.header.Get("Original-Request") != "true" || got.header.Get("Idempotency-Status") != "" || got.header.Get("Idempotency-Retention") != "" {
		t.Errorf("%+v", got)
	}
	s.expect(1, "n", 0)
	if got := s.send("POST", "/", "b", key...); got.status != 400 || got.header.Get("Error-Code") != string(oncehttp.ProblemMismatch) || got.body != `{"error":{"message":"Idempotency key used for another request"}}` {
		t.Errorf("%+v", got)
	}
	if got := s.send("POST", "/", "a", "Idempotency-Key", "k"); got.status != 428 {
		t.Errorf("%+v", got)
	}
	s.store.Advance(25 * time.Hour)
	status = 429
	s.send("POST", "/", "a", key...)
	s.send("POST", "/", "a", key...)
	s.expect(3, "n", 0)
}

// A dialect of the caller: reversals by DELETE, mismatch 409, JSON compared by value.
func TestPresetWithCanonicalBody(t *testing.T) {
	p := oncehttp.DefaultPreset()
	p.Methods = append(p.Methods, "DELETE", "PUT", "GET")
	p.Problems = map[oncehttp.ProblemCode]int{oncehttp.ProblemMismatch: 409}
	p.Route = func(*http.Request) string { return "everything" }
	p.Body = func(contentType string, body []byte) []byte {
		var b bytes.Buffer
		if contentType != "application/json" || json.Compact(&b, body) != nil {
			return body
		}
		return b.Bytes()
	}
	s := start(t, setup{Config: oncehttp.Config{Preset: p}}, create)
	for _, c := range []struct {
		method, body string
		status       int
	}{
		{"DELETE", `{"a": 1}`, 201}, {"DELETE", `{"a":1}`, 201}, {"DELETE", `{"a":2}`, 409}, {"PUT", `{"a":1}`, 409}, {"GET", "", 409},
	} {
		if got := s.send(c.method, "/refunds/1", c.body, "Idempotency-Key", "k", "Content-Type", "application/json"); got.status != c.status {
			t.Errorf("%s %s: %+v", c.method, c.body, got)
		}
	}
	if e := s.log.last(); e.Scope != "global everything" {
		t.Errorf("scope %q", e.Scope)
	}
	s.expect(1, "n", 1)
}

func TestDefaultIsFresh(t *testing.T) {
	oncehttp.DefaultPreset().Verdicts[2] = oncehttp.VerdictDiscard
	oncehttp.DefaultPreset().Methods[0] = "GET"
	if p := oncehttp.DefaultPreset(); p.Verdicts[2] != oncehttp.VerdictCommit || p.Methods[0] != "POST" {
		t.Errorf("%+v", p)
	}
}

func TestInvalidConfig(t *testing.T) {
	change := func(f func(*oncehttp.Preset)) oncehttp.Config {
		p := oncehttp.DefaultPreset()
		f(p)
		return oncehttp.Config{Principal: oncehttp.SharedPrincipal(), Preset: p}
	}
	for name, cfg := range map[string]oncehttp.Config{
		"no principal":                {},
		"negative wait":               {Principal: oncehttp.SharedPrincipal(), Wait: -1},
		"isolation":                   {Principal: oncehttp.SharedPrincipal(), Isolation: store.Isolation(sql.LevelSerializable)},
		"negative size":               {Principal: oncehttp.SharedPrincipal(), MaxStored: -1},
		"no methods":                  {Principal: oncehttp.SharedPrincipal(), Preset: &oncehttp.Preset{}},
		"HEAD":                        change(func(p *oncehttp.Preset) { p.Methods = []string{"POST", "HEAD"} }),
		"where a request has its key": change(func(p *oncehttp.Preset) { p.KeyHeaders = nil }),
		"class 1":                     change(func(p *oncehttp.Preset) { p.Verdicts[1] = oncehttp.VerdictCommit }),
		"status 100":                  change(func(p *oncehttp.Preset) { p.Verdicts[100] = oncehttp.VerdictCommit }),
		"status 1000":                 change(func(p *oncehttp.Preset) { p.Verdicts[1000] = oncehttp.VerdictCommit }),
		"verdict 3":                   change(func(p *oncehttp.Preset) { p.Verdicts[2] = 3 }),
		"unknown code":                change(func(p *oncehttp.Preset) { p.Problems = map[oncehttp.ProblemCode]int{"X": 400} }),
		"status of a code":            change(func(p *oncehttp.Preset) { p.Problems = map[oncehttp.ProblemCode]int{oncehttp.ProblemStale: 200} }),
	} {
		for _, make := range []func(){
			func() { oncehttp.Middleware(once.New(memstore.New(), once.Config{}), cfg) },
			func() { oncehttp.Handler(once.New(memstore.New(), once.Config{}), cfg, create) },
		} {
			func() {
				defer func() {
					if p, ok := recover().(string); !ok || name != "negative wait" && name != "negative size" && !strings.Contains(p, "\nTry: ") {
						t.Errorf("%s: panics with %q", name, p)
					}
				}()
				make()
				t.Errorf("%s: no panic", name)
			}()
		}
	}
}

func TestDecideOnNoVerdict(t *testing.T) {
	defer func() {
		if p, ok := recover().(string); !ok || !strings.Contains(p, "Try: VerdictDiscard, VerdictAnswerOnly or VerdictCommit") {
			t.Errorf("panics with %q", p)
		}
	}()
	oncehttp.Decide(t.Context(), 7)
	t.Error("no panic")
}

// A preset with RetryHeader says it of every problem, also of one that the handler writes.
func TestRetryHeaderOfProblems(t *testing.T) {
	p := oncehttp.DefaultPreset()
	p.RetryHeader = "should-retry"
	s := start(t, setup{Config: oncehttp.Config{Preset: p}}, create)
	if got := s.send("POST", "/", ""); got.status != 400 || got.header.Get("Should-Retry") != "false" {
		t.Errorf("%+v", got)
	}
	s.store.down = true
	if got := s.post("k", ""); got.status != 503 || got.header.Get("Should-Retry") != "true" {
		t.Errorf("%+v", got)
	}
}
