package jsonpointer_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/oncelib/once/internal/base/jsonpointer"
)

func parse(t *testing.T, s string) jsonpointer.Pointer {
	t.Helper()
	p, err := jsonpointer.Parse(s)
	if err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	return p
}

// TestExamplesOfRFC6901 has the examples of the RFC, section 5.
func TestExamplesOfRFC6901(t *testing.T) {
	const text = `{"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,"k\"l":6," ":7,"m~n":8}`
	for pointer, want := range map[string]string{
		"": text, "/foo": `["bar","baz"]`, "/foo/0": `"bar"`, "/foo/1": `"baz"`, "/": "0", "/a~1b": "1", "/c%d": "2", "/e^f": "3", "/g|h": "4", "/i\\j": "5", "/k\"l": "6", "/\x20": "7", "/m~0n": "8",
		"/foo/2": "", "/foo/00": "", "/foo/-": "", "/foo/bar": "", "/none": "", "/foo/0/0": "", "/m~0n/0": "",
	} {
		spans, oneReading, ok := jsonpointer.Find([]byte(text), []jsonpointer.Pointer{parse(t, pointer)})
		got := ""
		if len(spans[0]) > 0 {
			got = text[spans[0][0].From:spans[0][0].To]
		}
		if got != want || !oneReading || !ok || len(spans[0]) > 1 {
			t.Errorf("%q: %q, want %q", pointer, got, want)
		}
	}
	for _, wrong := range []string{"foo", " /foo", "/~", "/~2", "/a~", "/\xff"} {
		if p, err := jsonpointer.Parse(wrong); err == nil {
			t.Errorf("%q: %q", wrong, p)
		}
	}
	if got := parse(t, "/~01"); !slices.Equal(got, jsonpointer.Pointer{"~1"}) {
		t.Errorf("%q", got)
	}
}

// TestMembersOfOneName: all of them are found, and it is said that readers may see another one.
func TestMembersOfOneName(t *testing.T) {
	for text, want := range map[string]int{
		`{"a":1,"a":2}`:               2,
		`{"a":1,"\u0061":2}`:          2,
		`{"a":{"b":1},"a":{"c":2}}`:   3,
		`{"a":{"b":1,"b":[{"b":1}]}}`: 3,
	} {
		spans, oneReading, ok := jsonpointer.Find([]byte(text), []jsonpointer.Pointer{parse(t, "/a"), parse(t, "/a/b")})
		if n := len(spans[0]) + len(spans[1]); oneReading || !ok || n != want {
			t.Errorf("%s: %v", text, spans)
		}
	}
	if _, oneReading, ok := jsonpointer.Find([]byte(`{"x":1,"x":2,"a":1}`), []jsonpointer.Pointer{parse(t, "/a")}); !oneReading || !ok {
		t.Error("a name that no pointer has counts")
	}
	for _, no := range []string{"", "{", "{} {}", "\"\xff\"", "\xef\xbb\xbf{}"} {
		if _, _, ok := jsonpointer.Find([]byte(no), nil); ok {
			t.Errorf("%q is JSON", no)
		}
	}
}

// FuzzPointerFindsWhatEncodingJSONFinds: where there is one reading, what is found is what encoding/json finds under the same names.
func FuzzPointerFindsWhatEncodingJSONFinds(f *testing.F) {
	f.Add(`{"a":[1,{"b":"x\"]"}], "c":null}`, "/a/1/b")
	f.Add(`[[[]],{"":{"~":-1.5e3}}]`, "/1//~0")
	f.Add(`{"a":1,"a":{"b":2}}`, "/a/b")
	f.Add(` "\ud800" `, "")
	f.Fuzz(func(t *testing.T, text, pointer string) {
		p, err := jsonpointer.Parse(pointer)
		if err != nil {
			return
		}
		if len(p) > 0 && "/"+strings.Join(slices.Collect(func(yield func(string) bool) {
			for _, token := range p {
				if !yield(strings.NewReplacer("~", "~0", "/", "~1").Replace(token)) {
					return
				}
			}
		}), "/") != pointer {
			t.Fatalf("%q is read as %q", pointer, p)
		}
		spans, oneReading, ok := jsonpointer.Find([]byte(text), []jsonpointer.Pointer{p, p})
		if !ok {
			return
		}
		if !reflect.DeepEqual(spans[0], spans[1]) {
			t.Fatalf("%v", spans)
		}
		for _, s := range spans[0] {
			if !json.Valid([]byte(text[s.From:s.To])) || strings.TrimSpace(text[s.From:s.To]) != text[s.From:s.To] {
				t.Fatalf("%q is found in %q", text[s.From:s.To], text)
			}
		}
		if !oneReading {
			return
		}
		var v any
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		if decoder.Decode(&v) != nil {
			return
		}
		want, there := follow(v, p)
		if there != (len(spans[0]) == 1) {
			t.Fatalf("%q in %q: %v, encoding/json finds %v, %v", pointer, text, spans[0], want, there)
		}
		if !there {
			return
		}
		var got any
		decoder = json.NewDecoder(strings.NewReader(text[spans[0][0].From:spans[0][0].To]))
		decoder.UseNumber()
		if err := decoder.Decode(&got); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%q in %q: %v, want %v", pointer, text, got, want)
		}
	})
}

func follow(v any, p jsonpointer.Pointer) (any, bool) {
	for _, token := range p {
		switch at := v.(type) {
		case map[string]any:
			next, there := at[token]
			if !there {
				return nil, false
			}
			v = next
		case []any:
			n, err := strconv.Atoi(token)
			if err != nil || n < 0 || n >= len(at) || strconv.Itoa(n) != token {
				return nil, false
			}
			v = at[n]
		default:
			return nil, false
		}
	}
	return v, true
}
