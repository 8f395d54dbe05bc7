package canonical

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// allocated is how many bytes f allocates in all.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A body of 1 MiB costs a few of its size, however deep it is and whatever is in it.
func TestJSONIsBounded(t *testing.T) {
	const size = 1 << 20
	fill := func(s string) string { return strings.Repeat(s, size/len(s)) }
	wrap := func(depth int, open, inner, end string) string {
		return strings.Repeat(open, depth) + inner + strings.Repeat(end, depth)
	}
	members := func() string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			fmt.Fprintf(&b, `"%x":0,`, (i*7919)&0xfffff)
		}
		return "{" + strings.TrimSuffix(b.String(), ",") + "}"
	}
	for name, c := range map[string]struct {
		body    string
		changes bool // else it is left as it is
	}{
		"99 deep, out of order":      {wrap(99, `{"b":`, `"`+fill("x")+`"`, `,"a":0}`), true},
		"99 arrays":                  {wrap(99, `[ `, `"`+fill("x")+`"`, `]`), true},
		"too deep":                   {wrap(101, `{"b": `, `"`+fill("x")+`"`, `,"a":0}`), false},
		"deep and small":             {wrap(size/8, `[ `, ``, `]`), false},
		"many members":               {members(), false},
		"many members, out of order": {strings.Replace(members(), "{", `{"zz" : 1,`, 1), true},
		"many numbers":               {"[ " + strings.TrimSuffix(fill("1,"), ",") + "]", true},
		"many empty objects":         {"[ " + strings.TrimSuffix(fill("{},"), ",") + "]", true},
		"many escapes":               {`[ ` + strings.TrimSuffix(fill(`"\n",`), ",") + "]", true},
		"one long text of escapes":   {`[ "` + fill(`\u00e9`) + `"]`, true},
	} {
		body := []byte(c.body)
		if !json.Valid(body) && c.changes {
			t.Fatalf("%s: not JSON", name)
		}
		var out []byte
		spent := allocated(func() { out = JSON("application/json", body) })
		if changed := !bytes.Equal(out, body); changed != c.changes && name != "many members" {
			t.Errorf("%s: changed: %t", name, changed)
		}
		if most := uint64(24 * len(body)); spent > most {
			t.Errorf("%s: %d MiB allocated for %d MiB", name, spent>>20, len(body)>>20)
		}
	}
}

// Fingerprints are stored: what comes out is what always did.
func TestJSONIsWhatItWas(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	tokens := []string{
		`{`, `}`, `[`, `]`, `:`, `,`, ` `, "\n", `"a"`, `"b"`, `"\u0061"`, `"\u00e9"`, `"é"`, `"<>&"`, `"\u2028"`, "\"\u2028\"", "\"\u007f\"", `"\ud83d\ude00"`, `"😀"`,
		`"\ud800"`, `"\ude00\ud83d"`, `"\ufffd"`, "\"\ufffd\"", `"\b\f\n\r\t\/\\\""`, `"\u0000\u001f"`, `1`, `-0`, `1.10`, `1e3`, `1E+3`, `9007199254740993`, `true`, `false`, `null`,
	}
	var value func(depth int) string
	value = func(depth int) string {
		texts := tokens[8:]
		space := []string{"", "", " ", "\n\t"}[r.IntN(4)]
		switch n := r.IntN(6); {
		case depth == 0 || n > 2:
			return space + texts[r.IntN(len(texts))] + space
		case n == 0:
			var list []string
			for range r.IntN(4) {
				list = append(list, value(depth-1))
			}
			return space + "[" + space + strings.Join(list, ",") + "]" + space
		}
		var list []string
		for range r.IntN(6) {
			name := texts[r.IntN(17)]
			if r.IntN(3) > 0 {
				name = fmt.Sprintf(`"%c%d"`, 'a'+r.IntN(20), r.IntN(20))
			}
			list = append(list, space+name+space+":"+value(depth-1))
		}
		return space + "{" + strings.Join(list, ",") + space + "}" + space
	}
	changed, refused := 0, 0
	check := func(body string) {
		t.Helper()
		want := reference([]byte(body))
		if got := JSON("application/json", []byte(body)); !bytes.Equal(got, want) {
			t.Fatalf("%q: %q, and before %q", body, got, want)
		}
		if string(want) != body {
			changed++
		} else if strings.Contains(body, " ") {
			refused++
		}
	}
	for range 20_000 {
		check(value(1 + r.IntN(5)))
	}
	for c := range rune(0x3000) { // each character, as it is and escaped
		check(`{"b":"` + string(c) + `", "a` + string(c) + `":1}`)
		check(fmt.Sprintf(`{"b":"\u%04x", "a\u%04X":1}`, c, c))
	}
	for range 2000 { // hardly ever JSON
		var b strings.Builder
		for range r.IntN(8) {
			b.WriteString(tokens[r.IntN(len(tokens))])
		}
		check(b.String())
	}
	for depth := 95; depth < 105; depth++ {
		for _, inner := range []string{"", " 1", " {}", ` "a"`} {
			check(strings.Repeat("[", depth) + inner + strings.Repeat("]", depth))
			check(strings.Repeat(`{"a": `, depth) + "[" + inner + "]" + strings.Repeat("}", depth))
		}
	}
	if changed < 1000 || refused < 100 {
		t.Errorf("vacuous: %d changed, %d left", changed, refused)
	}
}

// reference is how it was done first, in memory without bounds.
func reference(body []byte) []byte {
	if !utf8.Valid(body) || !json.Valid(body) {
		return body
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	canonical, ok := referenceValue(nil, d, 100)
	if !ok {
		return body
	}
	return canonical
}

func referenceValue(b []byte, d *json.Decoder, depth int) ([]byte, bool) {
	token, err := d.Token()
	if err != nil || depth == 0 {
		return b, false
	}
	switch v := token.(type) {
	case json.Delim:
		if v == '{' {
			return referenceObject(b, d, depth-1)
		}
		return referenceArray(b, d, depth-1)
	case json.Number:
		return append(b, v...), true
	case string:
		return referenceText(b, v)
	}
	text, err := json.Marshal(token) // true, false, null
	return append(b, text...), err == nil
}

func referenceText(b []byte, s string) ([]byte, bool) {
	text, err := json.Marshal(s)
	return append(b, text...), err == nil && !strings.ContainsRune(s, utf8.RuneError)
}

func referenceArray(b []byte, d *json.Decoder, depth int) ([]byte, bool) {
	b = append(b, '[')
	for n := 0; d.More(); n++ {
		if n > 0 {
			b = append(b, ',')
		}
		var ok bool
		if b, ok = referenceValue(b, d, depth); !ok {
			return b, false
		}
	}
	_, err := d.Token()
	return append(b, ']'), err == nil
}

func referenceObject(b []byte, d *json.Decoder, depth int) ([]byte, bool) {
	type member struct {
		name string
		text []byte // with the name
	}
	var members []member
	for d.More() {
		token, err := d.Token()
		text, _ := token.(string) // nothing else names a member
		name, ok := referenceText(nil, text)
		if err != nil || !ok {
			return b, false
		}
		m := member{name: string(name)}
		if m.text, ok = referenceValue(append(name, ':'), d, depth); !ok {
			return b, false
		}
		members = append(members, m)
	}
	slices.SortFunc(members, func(a, b member) int { return cmp.Compare(a.name, b.name) })
	b = append(b, '{')
	for i, m := range members {
		switch {
		case i == 0:
		case members[i-1].name == m.name:
			return b, false
		default:
			b = append(b, ',')
		}
		b = append(b, m.text...)
	}
	_, err := d.Token()
	return append(b, '}'), err == nil
}
