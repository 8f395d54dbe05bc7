package wire

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/oncelib/once/internal/base/keyname"
)

const bad = "\x00" // no key

// Keys as header values. strict is the key under Config.Strict.
var vectors = []struct{ name, value, key, strict string }{
	{"string", `"foo bar"`, "foo bar", "foo bar"},
	{"uuid", `"8e03978e-40d5-43e8-bc93-6894a57f9324"`, "8e03978e-40d5-43e8-bc93-6894a57f9324", "8e03978e-40d5-43e8-bc93-6894a57f9324"},
	{"bare uuid", `8e03978e-40d5-43e8-bc93-6894a57f9324`, "8e03978e-40d5-43e8-bc93-6894a57f9324", bad},
	{"bare token", "foo", "foo", bad},
	{"empty", "", bad, bad},
	{"white space", "   ", bad, bad},
	{"empty string", `""`, bad, bad},
	{"string of a space", `" "`, " ", " "},
	{"white space around", ` "k" `, "k", "k"},
	{"white space around bare", " \tk ", "k", bad},
	{"escaped quote", `"a\"b"`, `a"b`, `a"b`},
	{"escaped backslash", `"a\\b"`, `a\b`, `a\b`},
	{"both escaped", `"\\\""`, `\"`, `\"`},
	{"escaped first", `"\"b"`, `"b`, `"b`},
	{"escaped other", `"a\b"`, bad, bad},
	{"escaped end", `"a\`, bad, bad},
	{"escaped last quote", `"a\"`, bad, bad},
	{"escaped tab", "\"\\\t\"", bad, bad},
	{"no end", `"a`, bad, bad},
	{"only a quote", `"`, bad, bad},
	{"no beginning", `a"`, bad, bad},
	{"quote inside bare", `a"b`, bad, bad},
	{"single quotes", `'a'`, "'a'", bad},
	{"two strings", `"a" "b"`, bad, bad},
	{"two strings, comma", `"a", "b"`, bad, bad},
	{"string and rest", `"a"b`, bad, bad},
	{"string and comma", `"a",`, bad, bad},
	{"list of bare", "a, b", bad, bad},
	{"bare with comma", "a,b", bad, bad},
	{"comma inside", `"a, b"`, "a, b", "a, b"},
	{"tab inside", "\"a\tb\"", bad, bad},
	{"tab inside bare", "a\tb", bad, bad},
	{"newline inside", "\"a\nb\"", bad, bad},
	{"delete inside", "\"a\x7fb\"", bad, bad},
	{"null inside", "\"a\x00b\"", bad, bad},
	{"null inside bare", "a\x00b", bad, bad},
	{"not ASCII", "\"f\u00fc\"", bad, bad},
	{"not ASCII, bare", "f\u00fc", bad, bad},
	{"not ASCII after an escape", "\"\\\\f\u00fc\"", bad, bad},
	{"not UTF-8", "\"\xff\"", bad, bad},
	{"all printable", `" !#$%&'()*+,-./0123456789:;<=>?@ABCXYZ[]^_` + "`" + `abcxyz{|}~"`, " !#$%&'()*+,-./0123456789:;<=>?@ABCXYZ[]^_`abcxyz{|}~", " !#$%&'()*+,-./0123456789:;<=>?@ABCXYZ[]^_`abcxyz{|}~"},
	{"bare with colon and space", "refund:ch_9ab 1000", "refund:ch_9ab 1000", bad},
	{"bare integer", "42", "42", bad},
	{"bare boolean", "?1", "?1", bad},
	{"bare bytes", ":YWJj:", ":YWJj:", bad},
	{"bare date", "@1659578233", "@1659578233", bad},
	{"display string", `%"foo"`, bad, bad},
	{"inner list", `("a")`, bad, bad},
	{"255 bytes", `"` + strings.Repeat("k", 255) + `"`, strings.Repeat("k", 255), strings.Repeat("k", 255)},
	{"256 bytes", `"` + strings.Repeat("k", 256) + `"`, bad, bad},
	{"255 bytes, escaped", `"` + strings.Repeat(`\"`, 255) + `"`, strings.Repeat(`"`, 255), strings.Repeat(`"`, 255)},
	{"255 bytes, bare", strings.Repeat("k", 255), strings.Repeat("k", 255), bad},
	{"256 bytes, bare", strings.Repeat("k", 256), bad, bad},

	// Parameters do not matter, but must be some.
	{"parameter", `"k";a`, "k", "k"},
	{"parameters", `"k";a=1; b=-2.5;c="x;y,\"z";d=tok/en:*;e=:YWJj:;f=?0;g=@12;h=%"f%c3%bc";*i;j-._*=1`, "k", "k"},
	{"bytes without padding", `"k";a=:YQ:`, "k", "k"},
	{"parameter of a bare key", `k;a=1`, bad, bad}, // or is it a part of the key?
	{"space before the semicolon", `"k" ;a`, bad, bad},
	{"no name", `"k";`, bad, bad},
	{"upper case name", `"k";A`, bad, bad},
	{"digit name", `"k";1`, bad, bad},
	{"no value", `"k";a=`, bad, bad},
	{"space before the value", `"k";a= 1`, bad, bad},
	{"comma after parameters", `"k";a=1,b`, bad, bad},
	{"16 digits", `"k";a=1234567890123456`, bad, bad},
	{"13 digits before the point", `"k";a=1234567890123.1`, bad, bad},
	{"4 digits after the point", `"k";a=1.1234`, bad, bad},
	{"no digits after the point", `"k";a=1.`, bad, bad},
	{"no digits", `"k";a=-`, bad, bad},
	{"string without end", `"k";a="x`, bad, bad},
	{"bytes without end", `"k";a=:YQ==`, bad, bad},
	{"bytes of another alphabet", `"k";a=:Y_==:`, bad, bad},
	{"bytes of one digit", `"k";a=:Y:`, bad, bad},
	{"boolean 2", `"k";a=?2`, bad, bad},
	{"decimal date", `"k";a=@1.5`, bad, bad},
	{"display string in upper case", `"k";a=%"%C3%BC"`, bad, bad},
	{"display string not UTF-8", `"k";a=%"%ff"`, bad, bad},
	{"display string cut", `"k";a=%"%c`, bad, bad},
	{"display string not hex", `"k";a=%"%gg"`, bad, bad},
	{"display string without quote", `"k";a=%x`, bad, bad},
	{"display string without end", `"k";a=%"x`, bad, bad},
	{"display string with a tab", "\"k\";a=%\"\t\"", bad, bad},
	{"inner list as value", `"k";a=("b")`, bad, bad},
}

func TestKeyVectors(t *testing.T) {
	for _, v := range vectors {
		for strict, want := range map[bool]string{false: v.key, true: v.strict} {
			got, err := ParseKey(v.value, strict)
			if err != nil {
				got = bad
			}
			if got != want {
				t.Errorf("%s: strict %v: %q gives %q, %v; want %q", v.name, strict, v.value, got, err, want)
			}
		}
	}
}

func FuzzKeyIsReadOrRefused(f *testing.F) {
	for _, v := range vectors {
		f.Add(v.value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		text, stringErr := parseString(value)
		if want, ok := item(value); (stringErr == nil) != ok || ok && text != want {
			t.Fatalf("%q is %q, %v; by the scanner %q, %t", value, text, stringErr, want, ok)
		}
		key, err := ParseKey(value, false)
		strictKey, strictErr := ParseKey(value, true)
		if err != nil {
			if key != "" || strictErr == nil {
				t.Fatalf("%q: %q, %v; strict %v", value, key, err, strictErr)
			}
			return
		}
		if err := keyname.Check(key); err != nil || !utf8.ValidString(key) {
			t.Fatalf("%q: %q: %v", value, key, err)
		}
		if strictErr == nil && strictKey != key {
			t.Fatalf("%q: %q, but strictly %q", value, key, strictKey)
		}
		if again, err := ParseKey(QuoteKey(key), true); err != nil || again != key {
			t.Fatalf("%q: %q does not come back: %q, %v", value, key, again, err)
		}
		// Whatever is taken for one key does not look like two of them in one line.
		if joined, err := ParseKey(value+", "+value, false); err == nil {
			t.Fatalf("%q twice is the key %q", value, joined)
		}
	})
}
