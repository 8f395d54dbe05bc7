package canonical_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/oncelib/once/oncehttp/canonical"
)

func TestJSONThatIsEqual(t *testing.T) {
	for name, c := range map[string]struct {
		a, b string
		same bool
	}{
		"white space":             {`{"a":1,"b":[1,2]}`, "{ \"a\" : 1,\n\"b\" : [ 1, 2 ] }", true},
		"order of members":        {`{"a":1,"b":{"c":2,"d":3}}`, `{"b":{"d":3,"c":2},"a":1}`, true},
		"escapes":                 {`{"a":"é\u0041<"}`, `{"\u0061":"\u00e9A\u003C"}`, true},
		"order of an array":       {`[1,2]`, `[2,1]`, false},
		"amounts":                 {`{"a":1}`, `{"a":2}`, false},
		"beyond a float":          {`{"a":9007199254740993}`, `{"a":9007199254740992}`, false},
		"spelling of a number":    {`{"a":1.10}`, `{"a":1.1}`, false},
		"text and number":         {`{"a":"1"}`, `{"a":1}`, false},
		"null and nothing":        {`{"a":null}`, `{}`, false},
		"two members of one name": {`{"a":1,"a":2}`, `{"a":2,"a":1}`, false},
		"the first of two":        {`{"a":1,"a":2}`, `{"a":1,"a":3}`, false},
		"the last of two":         {`{"a":1,"a":2}`, `{"a":3,"a":2}`, false},
		"half of a character":     {`{"a":"\ud800"}`, `{"a":"\ud801"}`, false},
		"broken":                  {`{"a":1`, `{"a": 1`, false},
		"composed and not":        {`"\u00e9"`, `"e\u0301"`, false},
		"nesting":                 {`[[1],2]`, `[[1,2]]`, false},
	} {
		sorted := func(s string) []byte { return canonical.JSON("application/json; charset=utf-8", []byte(s)) }
		if got := bytes.Equal(sorted(c.a), sorted(c.b)); got != c.same {
			t.Errorf("%s: %s and %s, the same: %t", name, sorted(c.a), sorted(c.b), got)
		}
		if a := canonical.JSON("text/plain", []byte(c.a)); string(a) != c.a {
			t.Errorf("%s: it is not JSON: %s", name, a)
		}
	}
	nested := func(n int) []byte { // with a space that is not there afterwards, unless it is too deep
		return slices.Concat(bytes.Repeat([]byte(`{"a":`), n), []byte(" 1"), bytes.Repeat([]byte("}"), n))
	}
	for depth, shorter := range map[int]int{1: 1, 99: 1, 100: 0, 9000: 0, 20000: 0} {
		if got := len(nested(depth)) - len(canonical.JSON("application/problem+json", nested(depth))); got != shorter {
			t.Errorf("%d deep: shorter by %d", depth, got)
		}
	}
}

// FuzzCanonicalJSONMeansTheSame: what comes out says the same, and is canonical.
func FuzzCanonicalJSONMeansTheSame(f *testing.F) {
	f.Add(`{"b":[1,{"a":null}],"a":"\u00e9\ud83d\ude00"}`)
	f.Add(`{"a":1,"a":2}`)
	f.Add(`[1e3, -0, 1.10, true, "\ud800"]`)
	f.Fuzz(func(t *testing.T, s string) {
		once := canonical.JSON("application/json", []byte(s))
		if again := canonical.JSON("application/json", once); !bytes.Equal(again, once) {
			t.Fatalf("%q, then %q, then %q", s, once, again)
		}
		if !json.Valid([]byte(s)) {
			if string(once) != s {
				t.Fatalf("%q was changed into %q", s, once)
			}
			return
		}
		if a, b := reading(t, s), reading(t, string(once)); a != b {
			t.Fatalf("%q says %s, %q says %s", s, a, once, b)
		}
	})
}

// reading is what an ordinary reader makes of s, in numbers as they are written.
func reading(t *testing.T, s string) string {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader([]byte(s)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
