package canonical

import (
	"bytes"
	"encoding/json"
	"mime"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth limits the nesting of values, because sorting may move each value once for each level.
const maxDepth = 100

// JSON is a Preset.Body of package oncehttp. JSON returns the same bytes for two JSON bodies with the same meaning. Differences in white space, in
// the order of members and in the escaping of characters are removed. Numbers stay as they are written, because JSON parsers disagree about the
// values of 9007199254740993 and 1.10. JSON returns a body unchanged if the body is not valid JSON, has two members of one name in an object, has
// half of a surrogate pair, or nests values more than 100 deep. The memory that JSON uses is a small multiple of the size of the body, however deep
// the values are nested.
func JSON(contentType string, body []byte) []byte {
	// Parsers read bytes that are not UTF-8 in different ways.
	if !isJSON(contentType) || !utf8.Valid(body) || !json.Valid(body) {
		return body
	}
	c := canonicalizer{in: body, out: make([]byte, 0, len(body))}
	if !c.value(maxDepth) {
		return body
	}
	return c.out
}

// canonicalizer rewrites valid JSON. Its methods return false if parsers could read the JSON in different ways, or if the JSON is nested too deeply.
type canonicalizer struct {
	in      []byte // the rest of the input
	out     []byte
	members []member // the members of the objects that are being read
	moved   []byte   // buffer for sorted members
}

// member is the position of one member of an object in the output, which is "name":value and a comma.
type member struct{ begin, nameEnd, end int }

// next skips white space and returns the next byte.
func (c *canonicalizer) next() byte {
	c.in = bytes.TrimLeft(c.in, " \t\r\n")
	return c.in[0]
}

// skip skips white space and one byte.
func (c *canonicalizer) skip() {
	c.next()
	c.in = c.in[1:]
}

// value copies the next value to the output.
func (c *canonicalizer) value(depth int) bool {
	first := c.next()
	if depth == 0 {
		return false
	}
	switch first {
	case '{':
		return c.object(depth - 1)
	case '[':
		return c.array(depth - 1)
	case '"':
		return c.text()
	}
	end := bytes.IndexAny(c.in, " \t\r\n,]}") // the end of a number, true, false or null
	if end < 0 {
		end = len(c.in)
	}
	c.out, c.in = append(c.out, c.in[:end]...), c.in[end:]
	return true
}

func (c *canonicalizer) array(depth int) bool {
	c.skip()
	c.out = append(c.out, '[')
	for n := 0; c.next() != ']'; n++ {
		if n > 0 {
			c.skip()
			c.out = append(c.out, ',')
		}
		if !c.value(depth) {
			return false
		}
	}
	c.skip()
	c.out = append(c.out, ']')
	return true
}

func (c *canonicalizer) object(depth int) bool {
	c.skip()
	c.out = append(c.out, '{')
	outer := len(c.members)
	for c.next() != '}' {
		if c.in[0] == ',' {
			c.skip()
			c.next()
		}
		m := member{begin: len(c.out)}
		if !c.text() {
			return false
		}
		m.nameEnd = len(c.out)
		c.skip()
		c.out = append(c.out, ':')
		if !c.value(depth) {
			return false
		}
		c.out = append(c.out, ',')
		m.end = len(c.out)
		c.members = append(c.members, m)
	}
	c.skip()
	ok := c.sort(c.members[outer:])
	if len(c.members) > outer {
		c.out = c.out[:len(c.out)-1] // the last comma
	}
	c.members = c.members[:outer]
	c.out = append(c.out, '}')
	return ok
}

// sort sorts the members of an object at the end of the output. It returns false if two members have the same name, because parsers disagree about
// which one counts.
func (c *canonicalizer) sort(members []member) bool {
	name := func(m member) []byte { return c.out[m.begin:m.nameEnd] }
	compare := func(a, b member) int { return bytes.Compare(name(a), name(b)) }
	inOrder := slices.IsSortedFunc(members, compare)
	if !inOrder {
		slices.SortFunc(members, compare)
	}
	for i := range members[min(1, len(members)):] {
		if bytes.Equal(name(members[i]), name(members[i+1])) {
			return false
		}
	}
	if inOrder {
		return true
	}
	begin := members[0].begin
	for _, m := range members {
		begin = min(begin, m.begin)
	}
	c.moved = append(c.moved[:0], c.out[begin:]...)
	c.out = c.out[:begin]
	for _, m := range members {
		c.out = append(c.out, c.moved[m.begin-begin:m.end-begin]...)
	}
	return true
}

// text copies a string, and escapes its characters as encoding/json does. It returns false for U+FFFD, because parsers also use this character in
// place of half of a surrogate pair.
func (c *canonicalizer) text() bool {
	c.in = c.in[1:]
	c.out = append(c.out, '"')
	for {
		r, size := utf8.DecodeRune(c.in)
		if r == '"' {
			c.in = c.in[1:]
			c.out = append(c.out, '"')
			return true
		}
		if r == '\\' {
			r, size = escaped(c.in)
		}
		if r == utf8.RuneError {
			return false
		}
		c.in = c.in[size:]
		c.out = appendRune(c.out, r)
	}
}

// escaped returns the character that an escape at the beginning of in stands for, and the length of the escape.
func escaped(in []byte) (r rune, size int) {
	if in[1] != 'u' {
		if i := strings.IndexByte("bfnrt", in[1]); i >= 0 {
			return rune("\b\f\n\r\t"[i]), 2
		}
		return rune(in[1]), 2 // ", \ and /
	}
	if r = hex4(in[2:]); !utf16.IsSurrogate(r) {
		return r, 6
	}
	if len(in) < 12 || in[6] != '\\' || in[7] != 'u' {
		return utf8.RuneError, 0
	}
	return utf16.DecodeRune(r, hex4(in[8:])), 12
}

func hex4(digits []byte) rune {
	n, _ := strconv.ParseUint(string(digits[:4]), 16, 16) // an error is impossible, because the JSON is valid
	return rune(n)
}

const hexDigits = "0123456789abcdef"

func appendRune(b []byte, r rune) []byte {
	switch r {
	case '"', '\\':
		return append(b, '\\', byte(r))
	case '\b', '\f', '\n', '\r', '\t':
		return append(b, '\\', "btn_fr"[r-'\b'])
	case '<', '>', '&', '\u2028', '\u2029':
	default:
		if r >= ' ' {
			return utf8.AppendRune(b, r)
		}
	}
	return append(b, '\\', 'u', hexDigits[r>>12], hexDigits[r>>8&0xf], hexDigits[r>>4&0xf], hexDigits[r&0xf])
}

// isJSON reports whether a media type is JSON, such as application/problem+json.
func isJSON(contentType string) bool {
	mediaType, _, err := mime.ParseMediaType(contentType)
	return err == nil && (mediaType == "application/json" || strings.HasSuffix(mediaType, "+json"))
}
