package oncehttp_test

import (
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
)

func TestMissingKey(t *testing.T) {
	s := start(t, setup{}, create)
	got := s.send("POST", "/refunds", "1000")
	if p := got.problem(t); got.status != 400 || p.Code != oncehttp.ProblemKeyMissing || p.Retryable || !p.SafeNewKey || p.Title == "" || p.Detail == "" {
		t.Errorf("%+v", p)
	}
	s.expect(0, "n", 0)
}

func TestOptionalKey(t *testing.T) {
	s := start(t, setup{Config: oncehttp.Config{Optional: true}}, create)
	for n := 1; n <= 2; n++ {
		got := s.send("POST", "/refunds", "1000", "X-Request-Id", "r1")
		if got.status != 201 || got.idempotency() != "ignored" || got.header.Get("Idempotency-Retention") != "" {
			t.Errorf("%+v", got)
		}
		s.expect(int64(n), "n", n)
	}
	if e := s.log.last(); e.Outcome != once.OutcomeExecuted || e.Attempt.RequestID != "r1" || e.KeyHash != "" {
		t.Errorf("%+v", e)
	}
	if got := s.post("k", ""); got.idempotency() != "stored" {
		t.Errorf("with a key: %+v", got)
	}
	// Without a key, the verdicts are the same: nothing of a 4xx is kept.
	s = start(t, setup{Config: oncehttp.Config{Optional: true}}, answers(422))
	if got := s.send("POST", "/refunds", ""); got.status != 422 || got.idempotency() != "ignored" {
		t.Errorf("%+v", got)
	}
	s.expect(1, "n", 0)
}

func TestKeySpellings(t *testing.T) {
	s := start(t, setup{}, create)
	for _, header := range [][]string{
		{"Idempotency-Key", "k-1"},
		{"Idempotency-Key", `"k-1"`},
		{"Idempotency-Key", `"k-1";v=1;x`},
		{"X-Idempotency-Key", "k-1"},
		{"X-Idempotency-Key", `"k-1"`},
		{"Idempotency-Key", "k-1", "X-Idempotency-Key", `"k-1"`},
		{"idempotency-key", "  k-1  "},
	} {
		if got := s.send("POST", "/refunds", "", header...); got.status != 201 || got.body != "refund 1" {
			t.Errorf("%q: %+v", header, got)
		}
	}
	s.expect(1, "n", 1)
}

func TestInvalidKey(t *testing.T) {
	for name, c := range map[string]struct {
		header []string
		safe   bool
		strict bool
	}{
		"empty":           {[]string{"Idempotency-Key", ""}, true, false},
		"empty string":    {[]string{"Idempotency-Key", `""`}, true, false},
		"too long":        {[]string{"Idempotency-Key", strings.Repeat("k", 256)}, true, false},
		"tab":             {[]string{"Idempotency-Key", "a\tb"}, true, false},
		"not ASCII":       {[]string{"Idempotency-Key", "\u00e4"}, true, false},
		"two lines":       {[]string{"Idempotency-Key", "a", "Idempotency-Key", "a"}, false, false},
		"joined lines":    {[]string{"Idempotency-Key", "a, a"}, false, false},
		"joined strings":  {[]string{"Idempotency-Key", `"a", "a"`}, false, false},
		"two names":       {[]string{"Idempotency-Key", "a", "X-Idempotency-Key", "b"}, false, false},
		"no end":          {[]string{"Idempotency-Key", `"a`}, false, false},
		"bare and strict": {[]string{"Idempotency-Key", "a"}, false, true},
	} {
		s := start(t, setup{Config: oncehttp.Config{Preset: quoted(c.strict), Optional: true}}, create)
		got := s.send("POST", "/refunds", "", c.header...)
		if p := got.problem(t); got.status != 400 || p.Code != oncehttp.ProblemKeyInvalid || p.Retryable || p.SafeNewKey != c.safe || p.Detail == "" {
			t.Errorf("%s: %+v", name, p)
		}
		s.expect(0, "n", 0)
	}
}

// quoted is the preset that takes quoted keys only, or both.
func quoted(only bool) *oncehttp.Preset {
	p := oncehttp.DefaultPreset()
	p.QuotedKeys = only
	return p
}

func TestStrictTakesStrings(t *testing.T) {
	s := start(t, setup{Config: oncehttp.Config{Preset: quoted(true)}}, create)
	if got := s.post(`"k"`, ""); got.status != 201 {
		t.Errorf("%+v", got)
	}
}

func TestNamespaceIsRequired(t *testing.T) {
	s := start(t, setup{engine: once.Config{RequireNamespace: once.Namespace{Prefix: "billing", Environment: "live", Version: "v1"}}}, create)
	got := s.post("k", "")
	if p := got.problem(t); got.status != 400 || p.Code != oncehttp.ProblemKeyInvalid || !strings.Contains(p.Detail, "billing:live:v1:<id>") {
		t.Errorf("%+v", p)
	}
	if got := s.post("billing:live:v1:7", ""); got.status != 201 {
		t.Errorf("%+v", got)
	}
}

// A key that cannot be used says nothing about the other sources of keys: an operation may
// have been executed under what another one carries.
func TestAnUnusableKeyBesideAnother(t *testing.T) {
	long := strings.Repeat("k", 256)
	type source struct {
		header []string
		form   string
	}
	for name, c := range map[string]struct {
		field  string // of a form
		first  source // executed
		retry  source // refused
		strict bool
	}{
		"empty second header":       {"", source{header: []string{"Idempotency-Key", "s3"}}, source{header: []string{"Idempotency-Key", "s3", "X-Idempotency-Key", ""}}, false},
		"long second header":        {"", source{header: []string{"Idempotency-Key", "s3"}}, source{header: []string{"Idempotency-Key", "s3", "X-Idempotency-Key", long}}, false},
		"second header not ASCII":   {"", source{header: []string{"Idempotency-Key", "s3"}}, source{header: []string{"Idempotency-Key", "s3", "X-Idempotency-Key", "\u00e4"}}, false},
		"tab in the second header":  {"", source{header: []string{"Idempotency-Key", "s3"}}, source{header: []string{"Idempotency-Key", "s3", "X-Idempotency-Key", "a\tb"}}, false},
		"empty first header":        {"", source{header: []string{"X-Idempotency-Key", "s3"}}, source{header: []string{"Idempotency-Key", "", "X-Idempotency-Key", "s3"}}, false},
		"long first header":         {"", source{header: []string{"X-Idempotency-Key", "s3"}}, source{header: []string{"Idempotency-Key", long, "X-Idempotency-Key", "s3"}}, false},
		"an executed key, bare":     {"", source{header: []string{"X-Idempotency-Key", `"s3"`}}, source{header: []string{"Idempotency-Key", "", "X-Idempotency-Key", "s3"}}, true},
		"empty header, good form":   {"once", source{form: "once=s3"}, source{[]string{"Idempotency-Key", ""}, "once=s3"}, false},
		"long header, good form":    {"once", source{form: "once=s3"}, source{[]string{"Idempotency-Key", long}, "once=s3"}, false},
		"good header, empty form":   {"once", source{[]string{"Idempotency-Key", "s3"}, "once="}, source{[]string{"Idempotency-Key", "s3"}, "once="}, false},
		"good header, long form":    {"once", source{header: []string{"Idempotency-Key", "s3"}}, source{[]string{"Idempotency-Key", "s3"}, "once=" + long}, false},
		"good header, control form": {"once", source{header: []string{"Idempotency-Key", "s3"}}, source{[]string{"Idempotency-Key", "s3"}, "once=%00"}, false},
		"key of a form in a header": {"once", source{form: "once=%C3%BC"}, source{header: []string{"Idempotency-Key", "\u00fc"}}, false},
		"unreadable key of a form":  {"once", source{form: "once=s%20"}, source{form: "once=s%2"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, setup{Config: oncehttp.Config{FormField: c.field, Preset: quoted(c.strict)}}, create)
			send := func(from source) response {
				return s.send("POST", "/refunds", from.form, append([]string{"Content-Type", urlencoded}, from.header...)...)
			}
			if name != "good header, empty form" { // which is refused at once
				if got := send(c.first); got.status != 201 {
					t.Fatalf("%+v", got)
				}
				s.expect(1, "n", 1)
			}
			got := send(c.retry)
			if p := got.problem(t); got.status != 400 || p.SafeNewKey || p.Retryable {
				t.Errorf("%+v", p)
			}
		})
	}
	// Nothing but what can never name an operation: a new key is safe.
	for name, c := range map[string]source{
		"two that are unusable": {header: []string{"Idempotency-Key", "", "X-Idempotency-Key", long}},
		"empty field":           {form: "once="},
		"form without a key":    {form: "item=book"},
		"not even a form":       {},
	} {
		field := "once"
		if c.header != nil {
			field = ""
		}
		s := start(t, setup{Config: oncehttp.Config{FormField: field}}, create)
		got := s.send("POST", "/refunds", c.form, append([]string{"Content-Type", urlencoded}, c.header...)...)
		if p := got.problem(t); got.status != 400 || !p.SafeNewKey {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// A multipart form that ends too early may have had the key behind its end.
func TestAFormThatIsCutOff(t *testing.T) {
	s := start(t, setup{Config: oncehttp.Config{FormField: "once"}}, buy)
	contentType, body := form("k", "book", "file")
	if got := s.send("POST", "/buy", body, "Content-Type", contentType); got.status != 200 {
		t.Fatalf("%+v", got)
	}
	for _, cut := range []string{`name="once"`, "\r\n\r\nk\r\n"} {
		part, _, found := strings.Cut(body, cut)
		got := s.send("POST", "/buy", part, "Content-Type", contentType)
		if p := got.problem(t); !found || got.status != 400 || p.Code != oncehttp.ProblemKeyMissing || p.SafeNewKey {
			t.Errorf("cut before %q: %+v", cut, p)
		}
	}
	s.expect(1, "n", 1)
}
