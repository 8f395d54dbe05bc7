package oncehttp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"mime"
	"slices"
	"strings"
	"unicode/utf8"
)

// CanonicalJSON is a Preset.Body: of two JSON bodies that say the same it makes the same
// bytes. White space, the order of members and the way in which a character is escaped
// do not count. Everything else does: numbers are compared as they are written, since
// readers do not agree on what 9007199254740993 or 1.10 is. What is not JSON, or has two
// members of one name, or half of a character, or values more than 100 deep, is compared
// as it is.
func CanonicalJSON(contentType string, body []byte) []byte {
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil || mediaType != "application/json" && !strings.HasSuffix(mediaType, "+json") || !utf8.Valid(body) || !json.Valid(body) {
		return body
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	canonical, ok := appendCanonical(make([]byte, 0, len(body)), d, 100)
	if !ok {
		return body
	}
	return canonical
}

// appendCanonical appends the next value of d, whose input is valid. It returns false if
// there is more than one way to read it, or if it is too deep: each level is copied.
func appendCanonical(b []byte, d *json.Decoder, depth int) ([]byte, bool) {
	token, err := d.Token()
	if err != nil || depth == 0 {
		return b, false
	}
	switch v := token.(type) {
	case json.Delim:
		if v == '{' {
			return appendObject(b, d, depth-1)
		}
		return appendArray(b, d, depth-1)
	case json.Number:
		return append(b, v...), true
	case string:
		return appendText(b, v)
	}
	text, err := json.Marshal(token) // true, false, null
	return append(b, text...), err == nil
}

// appendText refuses what the decoder puts in the place of half a character, although
// it may have been sent.
func appendText(b []byte, s string) ([]byte, bool) {
	text, err := json.Marshal(s)
	return append(b, text...), err == nil && !strings.ContainsRune(s, utf8.RuneError)
}

func appendArray(b []byte, d *json.Decoder, depth int) ([]byte, bool) {
	b = append(b, '[')
	for n := 0; d.More(); n++ {
		if n > 0 {
			b = append(b, ',')
		}
		var ok bool
		if b, ok = appendCanonical(b, d, depth); !ok {
			return b, false
		}
	}
	_, err := d.Token()
	return append(b, ']'), err == nil
}

func appendObject(b []byte, d *json.Decoder, depth int) ([]byte, bool) {
	type member struct {
		name string
		text []byte // with the name
	}
	var members []member
	for d.More() {
		token, err := d.Token()
		text, _ := token.(string) // nothing else names a member
		name, ok := appendText(nil, text)
		if err != nil || !ok {
			return b, false
		}
		m := member{name: string(name)}
		if m.text, ok = appendCanonical(append(name, ':'), d, depth); !ok {
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
