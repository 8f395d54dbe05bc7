package canonical_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/oncelib/once/oncehttp/canonical"
)

func canonicalForm(body string) string {
	return string(canonical.Form("application/x-www-form-urlencoded; charset=utf-8", []byte(body)))
}

func TestFormsThatAreEqual(t *testing.T) {
	for _, same := range [][]string{
		{"a=1&b=2", "b=2&a=1", "&a=1&&b=2&", "%61=1&b=%32"},
		{"a=x y", "a=x+y", "a=x%20y"},
		{"m[a]=1&m[b]=2", "m%5Bb%5D=2&m%5Ba%5D=1"},
		{"e[]=1&e[]=2&a=1", "a=1&e[]=1&e[]=2", "e[]=1&a=1&e[]=2"},
		{"i[0][p]=1&i[1][p]=2", "i[1][p]=2&i[0][p]=1"},
		{"a=%C3%A9", "a=é", "a=%c3%a9"},
	} {
		for _, other := range same[1:] {
			if canonicalForm(same[0]) != canonicalForm(other) {
				t.Errorf("%s is %s, %s is %s", same[0], canonicalForm(same[0]), other, canonicalForm(other))
			}
		}
	}
	different := []string{
		"", "a=1", "a=2", "a", "a=", "a=1&a=2", "a=2&a=1", "a=1&a=1", "b=1", "a=1&b=2", "a%3D1", "a=1%26b=2", "a=1;b=2",
		"a[]=1&a[]=2", "a[]=2&a[]=1", "a[]=1", "a[0]=1",
		// Who belongs to whom: [{x:1,y:2},{x:3,y:4}], and [{x:1},{x:3,y:2},{y:4}].
		"a[][x]=1&a[][y]=2&a[][x]=3&a[][y]=4", "a[][x]=1&a[][x]=3&a[][y]=2&a[][y]=4",
		// The last one wins, for some readers.
		"a=1&a[b]=2", "a[b]=2&a=1", "a[b]=1&a[]=2", "a[]=2&a[b]=1", "a[b][c]=1&a[b]=2", "a[b]=2&a[b][c]=1",
		"a=%zz", "a=%",
	}
	for i, a := range different {
		for _, b := range different[i+1:] {
			if canonicalForm(a) == canonicalForm(b) {
				t.Errorf("%s passes for %s: %s", a, b, canonicalForm(b))
			}
		}
	}
	many, deep := strings.Repeat("b=1&", 9_999), strings.Repeat("[x]", 32)
	for _, c := range []struct {
		body      string
		canonical bool
	}{{many + "a=1", true}, {many + "b=1&a=1", false}, {"b" + deep + "=1&a=1", true}, {"b[x]" + deep + "=1&a=1", false}, {"b" + strings.Repeat("[", 1<<20) + "=1&a=1", false}} {
		if got := strings.HasPrefix(canonicalForm(c.body), "a=1"); got != c.canonical {
			t.Errorf("%.20s..., %d bytes: canonical %t", c.body, len(c.body), got)
		}
	}
	for _, contentType := range []string{"", "application/json", "text/plain", "; ;"} {
		if got := string(canonical.Form(contentType, []byte("b=1&a=1"))); got != "b=1&a=1" {
			t.Errorf("%q: %s", contentType, got)
		}
	}
}

// FuzzCanonicalFormMeansTheSame: what net/url reads is the same before and after, for each parameter in
// the same order, and a canonical form stays as it is.
func FuzzCanonicalFormMeansTheSame(f *testing.F) {
	for _, seed := range []string{"a=1&b=2", "a[]=1&a[]=2&a", "a[][x]=1&a[][y]=2", "a=1&a[b]=2", "%zz", "a;b", "&&=&", "[=1&[]=2&]=3", "a+b=%C3%28"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		canonical := canonicalForm(body)
		if again := canonicalForm(canonical); again != canonical {
			t.Fatalf("%q becomes %q", canonical, again)
		}
		before, err := url.ParseQuery(body)
		after, wrong := url.ParseQuery(canonical)
		if err != nil {
			if canonical != body {
				t.Fatalf("%q cannot be read and becomes %q", body, canonical)
			}
			return
		}
		if wrong != nil || len(before) != len(after) {
			t.Fatalf("%q becomes %q: %v", body, canonical, wrong)
		}
		for name, values := range before {
			if !slices.Equal(values, after[name]) {
				t.Fatalf("%q becomes %q: %s", body, canonical, name)
			}
		}
		if pairs := strings.Split(body, "&"); len(pairs) == 2 && !strings.Contains(body, "[") && pairs[0] != "" && pairs[1] != "" && pairs[0] != pairs[1] {
			a, _, _ := strings.Cut(pairs[0], "=")
			b, _, _ := strings.Cut(pairs[1], "=")
			a, _ = url.QueryUnescape(a)
			b, _ = url.QueryUnescape(b)
			if swapped := canonicalForm(pairs[1] + "&" + pairs[0]); a != b && swapped != canonical && !strings.Contains(a+b, "[") {
				t.Fatalf("%q is %q, swapped %q", body, canonical, swapped)
			}
		}
	})
}
