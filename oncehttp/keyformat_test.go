package oncehttp_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/oncelib/once/oncehttp"
)

// TestKeyFormat: what has not the form is refused before anything is executed, with a reason, and never told that a new key is safe:
// the route may have executed what it refuses now.
func TestKeyFormat(t *testing.T) {
	const uuid = "8e03978e-40d5-43e8-bc93-6894a57f9324"
	own := func(key string) error {
		if !strings.HasPrefix(key, "ord_") {
			return errors.New("the key is the id of the order, such as ord_1")
		}
		return nil
	}
	for name, c := range map[string]struct {
		format    oncehttp.KeyFormat
		good, bad []string
		says      string
	}{
		"UUID": {
			oncehttp.KeyFormat{UUID: true},
			[]string{uuid, `"` + uuid + `"`, " " + uuid + " ", "01890a5d-ac96-774b-bcce-b302099a8057", `"` + uuid + `";v=1`},
			[]string{strings.ToUpper(uuid), strings.Replace(uuid, "e", "E", 1), "{" + uuid + "}", strings.ReplaceAll(uuid, "-", ""), "urn:uuid:" + uuid, uuid + "0", uuid[1:], "g" + uuid[1:], `" ` + uuid[1:] + `"`, "'" + uuid + "'", strings.Replace(uuid, "-", "0", 1), "order-1", "%38" + uuid[1:]},
			"UUID in lower case",
		},
		"UUIDs that stand for none": {oncehttp.KeyFormat{UUID: true}, nil, []string{"00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"}, "cannot be a key"},
		"at least":                  {oncehttp.KeyFormat{MinLength: 4}, []string{"abcd", `"abcd"`}, []string{"abc", `"abc"`, " abc "}, "at least 4 are needed"},
		"at most":                   {oncehttp.KeyFormat{MaxLength: 4}, []string{"abcd", `"abcd"`, `"ab\"d"`}, []string{"abcde"}, "at most 4 are allowed"},
		"own":                       {oncehttp.KeyFormat{Check: own}, []string{"ord_1"}, []string{"1"}, "such as ord_1"},
		"own and short":             {oncehttp.KeyFormat{Check: own, MinLength: 5}, []string{"ord_1"}, []string{"ord_"}, "at least 5"},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, setup{Config: oncehttp.Config{KeyFormat: c.format}}, create)
			for _, key := range c.bad {
				p := s.post(key, "1").problem(t)
				if p.Code != oncehttp.ProblemKeyInvalid || p.Status != 400 || p.SafeNewKey || p.Retryable || !strings.Contains(p.Detail, c.says) || !strings.HasSuffix(p.Type, "validation/idempotency-key-invalid") {
					t.Errorf("%q: %+v", key, p)
				}
			}
			s.expect(0, "n", 0)
			for _, key := range c.good {
				if got := s.post(key, "1"); got.status != 201 {
					t.Errorf("%q: %+v", key, got)
				}
			}
		})
	}
}

// TestKeyFormatInForms and in keys that the program finds itself.
func TestKeyFormatInForms(t *testing.T) {
	s := start(t, setup{Config: oncehttp.Config{FormField: "once", KeyFormat: oncehttp.KeyFormat{MinLength: 4}}}, create)
	for body, want := range map[string]int{"once=abc": 400, "once=abcd": 201, "x=1": 400} {
		if got := s.send("POST", "/refunds", body, "Content-Type", urlencoded); got.status != want {
			t.Errorf("%s: %+v", body, got)
		}
	}
	s.expect(1, "n", 1)
}

// TestMangledKeys: what of a key that a client or a proxy has changed between two attempts is the same key, what is another one, and
// what is refused. docs/keys.md has this table.
func TestMangledKeys(t *testing.T) {
	const key = "8e03978e-40d5-43e8-bc93-6894a57f9324"
	for name, c := range map[string]struct {
		sent []string // lines of the header
		want string
	}{
		"as it was":            {[]string{key}, "same"},
		"quoted":               {[]string{`"` + key + `"`}, "same"},
		"quoted, a parameter":  {[]string{`"` + key + `";v=1`}, "same"},
		"blanks around it":     {[]string{"  " + key + "\t"}, "same"},
		"blanks, then quotes":  {[]string{`  "` + key + `"  `}, "same"},
		"capitals":             {[]string{strings.ToUpper(key)}, "another"},
		"blanks inside quotes": {[]string{`" ` + key + `"`}, "another"},
		"single quotes":        {[]string{"'" + key + "'"}, "another"},
		"braces":               {[]string{"{" + key + "}"}, "another"},
		"no hyphens":           {[]string{strings.ReplaceAll(key, "-", "")}, "another"},
		"percent":              {[]string{strings.ReplaceAll(key, "-", "%2D")}, "another"},
		"two lines":            {[]string{key, key}, "refused"},
		"joined by a comma":    {[]string{key + ", " + key}, "refused"},
		"joined, no blank":     {[]string{key + "," + key}, "refused"},
		"joined strings":       {[]string{`"` + key + `", "` + key + `"`}, "refused"},
		"a quote is missing":   {[]string{`"` + key}, "refused"},
		"a quote too many":     {[]string{key + `"`}, "refused"},
		"quoted twice":         {[]string{`""` + key + `""`}, "refused"},
		"curly quotes":         {[]string{"\u201c" + key + "\u201d"}, "refused"},
		"a bare parameter":     {[]string{key + ";v=1"}, "refused"},
		"empty":                {[]string{""}, "refused"},
	} {
		for _, strict := range []bool{false, true} { // with KeyFormat.UUID, what would be another key is refused
			s := start(t, setup{Config: oncehttp.Config{KeyFormat: oncehttp.KeyFormat{UUID: strict}}}, create)
			if got := s.post(key, "1"); got.status != 201 {
				t.Fatalf("%+v", got)
			}
			var header []string
			for _, line := range c.sent {
				header = append(header, "Idempotency-Key", line)
			}
			want := c.want
			if strict && want == "another" {
				want = "refused"
			}
			switch got := s.send("POST", "/refunds", "1", header...); {
			case want == "same" && got.idempotency() == "replayed", want == "another" && got.body == "refund 2", want == "refused" && got.status == 400 && got.problem(t).Code == oncehttp.ProblemKeyInvalid:
			default:
				t.Errorf("%s (UUID %v): %+v, want %s", name, strict, got, want)
			}
		}
	}
}
