// Package jsonpointer finds the positions of values in a JSON text. JSON Pointers (RFC 6901) name the values. The text stays
// unchanged, so the bytes around the values stay the same.
package jsonpointer

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Pointer is a JSON Pointer: the names of members and the numbers of elements on the way to a value.
type Pointer []string

// Parse reads a pointer such as "/card/number". The pointer "" names the whole text.
func Parse(s string) (Pointer, error) {
	switch {
	case !utf8.ValidString(s):
		return nil, errors.New("the pointer is not valid UTF-8")
	case s == "":
		return Pointer{}, nil
	case s[0] != '/':
		return nil, errors.New("the pointer does not begin with a slash")
	}
	p := Pointer(strings.Split(s[1:], "/"))
	for i, token := range p {
		for j := range len(token) {
			if token[j] == '~' && (j+1 == len(token) || token[j+1] != '0' && token[j+1] != '1') {
				return nil, errors.New("the pointer has a ~ that is not followed by 0 or 1")
			}
		}
		p[i] = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~") // in this order, because ~01 means ~1
	}
	return p, nil
}

// Span is where a value begins and ends in a text.
type Span struct{ From, To int }

// Find returns the values that each pointer names, in the order of the text. If an object has several members of one name, a
// pointer names several values, and oneReading is false, because JSON readers disagree about the member that counts.
// oneReading is also false if only one of the members contains the value. ok is false if the text is not JSON in UTF-8.
func Find(text []byte, pointers []Pointer) (spans [][]Span, oneReading, ok bool) {
	if !utf8.Valid(text) || !json.Valid(text) {
		return nil, false, false
	}
	f := finder{text: text, spans: make([][]Span, len(pointers)), oneReading: true}
	open := make([]path, len(pointers))
	for i, p := range pointers {
		open[i] = path{i, p}
	}
	f.value(open)
	return f.spans, f.oneReading, true
}

// Null returns text with null instead of each of the values. Every other byte stays as it is.
func Null(text []byte, spans [][]Span) []byte {
	all := slices.Concat(spans...)
	slices.SortFunc(all, func(a, b Span) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(b.To, a.To)) })
	out, at := make([]byte, 0, len(text)), 0
	for _, s := range all {
		if s.From < at { // a part of a value that was replaced already
			continue
		}
		out, at = append(append(out, text[at:s.From]...), "null"...), s.To
	}
	return append(out, text[at:]...)
}

// finder reads a valid JSON text.
type finder struct {
	text       []byte
	at         int
	spans      [][]Span
	oneReading bool
}

// path is the rest of a pointer that was not followed yet. number is the position of the pointer in the list.
type path struct {
	number int
	rest   Pointer
}

// next skips white space and returns the next byte.
func (f *finder) next() byte {
	for {
		switch c := f.text[f.at]; c {
		case ' ', '\t', '\r', '\n':
			f.at++
		default:
			return c
		}
	}
}

// value reads the next value. The paths have led to this value.
func (f *finder) value(paths []path) {
	first := f.next()
	from := f.at
	var inside []path
	for _, p := range paths {
		if len(p.rest) > 0 {
			inside = append(inside, p)
		}
	}
	switch {
	case len(inside) == 0:
		f.skip()
	case first == '{':
		f.object(inside)
	case first == '[':
		f.array(inside)
	default:
		f.skip()
	}
	for _, p := range paths {
		if len(p.rest) == 0 {
			f.spans[p.number] = append(f.spans[p.number], Span{from, f.at})
		}
	}
}

// step returns the paths whose next token is token.
func step(paths []path, token string) (on []path) {
	for _, p := range paths {
		if p.rest[0] == token {
			on = append(on, path{p.number, p.rest[1:]})
		}
	}
	return on
}

func (f *finder) object(paths []path) {
	seen := map[string]bool{}
	f.at++
	for f.next() != '}' {
		if f.text[f.at] == ',' {
			f.at++
			f.next()
		}
		from := f.at
		f.skip()
		var name string
		_ = json.Unmarshal(f.text[from:f.at], &name) // the whole text is valid JSON
		f.next()
		f.at++ // the colon
		on := step(paths, name)
		if len(on) > 0 {
			f.oneReading = f.oneReading && !seen[name]
			seen[name] = true
		}
		f.value(on)
	}
	f.at++
}

func (f *finder) array(paths []path) {
	f.at++
	for n := 0; f.next() != ']'; n++ {
		if n > 0 {
			f.at++
		}
		f.value(step(paths, strconv.Itoa(n)))
	}
	f.at++
}

// skip reads a value in which no pointer ends.
func (f *finder) skip() {
	switch f.next() {
	case '"':
		f.skipText()
		return
	case '{', '[':
	default: // a number, true, false, null
		for f.at < len(f.text) && strings.IndexByte(" \t\r\n,]}", f.text[f.at]) < 0 {
			f.at++
		}
		return
	}
	for depth := 0; ; {
		switch f.text[f.at] {
		case '"':
			f.skipText()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if f.at++; depth == 0 {
			return
		}
	}
}

// skipText reads a string.
func (f *finder) skipText() {
	for f.at++; f.text[f.at] != '"'; f.at++ {
		if f.text[f.at] == '\\' {
			f.at++
		}
	}
	f.at++
}
