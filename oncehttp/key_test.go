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
	if p := got.problem(t); got.status != 400 || p.Code != oncehttp.CodeKeyMissing || p.Retryable || !p.SafeNewKey || p.Title == "" || p.Detail == "" {
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
	if e := s.log.last(); e.Outcome != once.Executed || e.Caller.RequestID != "r1" || e.KeyHash != "" {
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
		s := start(t, setup{Config: oncehttp.Config{Strict: c.strict, Optional: true}}, create)
		got := s.send("POST", "/refunds", "", c.header...)
		if p := got.problem(t); got.status != 400 || p.Code != oncehttp.CodeKeyInvalid || p.Retryable || p.SafeNewKey != c.safe || p.Detail == "" {
			t.Errorf("%s: %+v", name, p)
		}
		s.expect(0, "n", 0)
	}
}

func TestStrictTakesStrings(t *testing.T) {
	s := start(t, setup{Config: oncehttp.Config{Strict: true}}, create)
	if got := s.post(`"k"`, ""); got.status != 201 {
		t.Errorf("%+v", got)
	}
}

func TestNamespaceIsRequired(t *testing.T) {
	s := start(t, setup{engine: once.Config{RequireNamespace: once.Namespace{Prefix: "billing", Environment: "live", Version: "v1"}}}, create)
	got := s.post("k", "")
	if p := got.problem(t); got.status != 400 || p.Code != oncehttp.CodeKeyInvalid || !strings.Contains(p.Detail, "billing:live:v1:<id>") {
		t.Errorf("%+v", p)
	}
	if got := s.post("billing:live:v1:7", ""); got.status != 201 {
		t.Errorf("%+v", got)
	}
}
