package oncehttp_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/oncelib/once/oncehttp"
)

func TestIfMatch(t *testing.T) {
	for _, c := range []struct {
		lines       []string
		etag        string
		ok, present bool
	}{
		{nil, `"v1"`, false, false},
		{[]string{`"v1"`}, `"v1"`, true, true},
		{[]string{`"v1"`}, `"v2"`, false, true},
		{[]string{`"v1"`}, "", false, true},
		{[]string{`"v1", "v2"`}, `"v2"`, true, true},
		{[]string{`"v1","v2" , "v3"`}, `"v3"`, true, true},
		{[]string{`"v1"`, `"v2"`}, `"v2"`, true, true},
		{[]string{`, "v1",, `}, `"v1"`, true, true},
		{[]string{`"a,b"`}, `"a,b"`, true, true},
		{[]string{`"a,b"`}, `"a"`, false, true},
		{[]string{`*`}, `"v1"`, true, true},
		{[]string{` * `}, `"v1"`, true, true},
		{[]string{`*`}, "", false, true},
		{[]string{`*`}, `W/"v1"`, true, true}, // it exists, that is all that is asked
		{[]string{`*, "v1"`}, `"v1"`, false, true},
		{[]string{`W/"v1"`}, `"v1"`, false, true},
		{[]string{`W/"v1"`}, `W/"v1"`, false, true},
		{[]string{`"v1"`}, `W/"v1"`, false, true},
		{[]string{`W/"v1", "v1"`}, `"v1"`, true, true},
		{[]string{`""`}, `""`, true, true},
		{[]string{``}, `"v1"`, false, true},
		{[]string{`v1`}, `v1`, false, true},
		{[]string{`"v1`}, `"v1`, false, true},
		{[]string{`"v1" "v2"`}, `"v2"`, false, true},
		{[]string{`"v1"x, "v2"`}, `"v2"`, false, true},
		{[]string{`"v1", v2`}, `"v1"`, false, true}, // half of it is malformed: none of it counts
		{[]string{"\"a\tb\""}, "\"a\tb\"", false, true},
		{[]string{"\"\u00e4\""}, "\"\u00e4\"", true, true},
		{[]string{`w/"v1"`}, `"v1"`, false, true},
	} {
		r := &http.Request{Header: http.Header{}}
		if c.lines != nil {
			r.Header["If-Match"] = c.lines
		}
		if ok, present := oncehttp.IfMatch(r, c.etag); ok != c.ok || present != c.present {
			t.Errorf("%q against %q: %v, %v", c.lines, c.etag, ok, present)
		}
	}
}

func FuzzIfMatch(f *testing.F) {
	f.Add(`"a", W/"b"`, "c")
	f.Add(`*`, "")
	f.Add(`"a,b"`, "a")
	f.Fuzz(func(t *testing.T, value, opaque string) {
		etag := `"` + opaque + `"`
		r := &http.Request{Header: http.Header{"If-Match": {value}}}
		ok, present := oncehttp.IfMatch(r, etag)
		if !present {
			t.Fatal("not present")
		}
		if ok && strings.Trim(value, " \t") != "*" && !strings.Contains(value, etag) {
			t.Fatalf("%q matches %q", value, etag)
		}
		if weak, _ := oncehttp.IfMatch(r, "W/"+etag); weak && strings.Trim(value, " \t") != "*" {
			t.Fatalf("%q matches a weak tag", value)
		}
		valid := !strings.ContainsFunc(opaque, func(c rune) bool { return c == '"' || c < 0x21 || c == 0x7f })
		r.Header["If-Match"] = []string{`"other"`, etag}
		if ok, _ := oncehttp.IfMatch(r, etag); ok != valid {
			t.Fatalf("%q in a list with itself: %v", etag, ok)
		}
	})
}
