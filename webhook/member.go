package webhook

import (
	"bytes"
	"encoding/json"
	"strings"
)

// member returns the text of a string or number in a JSON object, by its path such as "event.type". It returns
// "" if the object has no such member. If several members have the same name, it takes the first one. It does
// not check the rest of the body: the code that applies the event parses the whole body.
func member(body []byte, path string) string {
	for path != "" {
		var name string
		name, path, _ = strings.Cut(path, ".")
		if body = valueOf(body, name); body == nil {
			return ""
		}
	}
	if len(body) == 0 {
		return ""
	}
	switch c := body[0]; {
	case c == '"' && bytes.IndexByte(body, '\\') < 0:
		// Without escapes, the text between the quotation marks is the value.
		return string(body[1 : len(body)-1])
	case c == '"':
		var text string
		if json.Unmarshal(body, &text) != nil {
			return ""
		}
		return text
	case c == '-' || '0' <= c && c <= '9':
		return string(body)
	}
	return ""
}

// valueOf returns the bytes of the value of a member of object, or nil if the object has no such member.
func valueOf(object []byte, name string) []byte {
	rest, ok := after(object, '{')
	for ok {
		rest = space(rest)
		end := endOfString(rest)
		if end < 0 {
			return nil
		}
		found := isName(rest[:end], name)
		if rest, ok = after(rest[end:], ':'); !ok {
			return nil
		}
		rest = space(rest)
		if end = endOfValue(rest); end <= 0 {
			return nil
		}
		if found {
			return rest[:end]
		}
		rest, ok = after(rest[end:], ',')
	}
	return nil
}

// isName reports whether the JSON string quoted contains name.
func isName(quoted []byte, name string) bool {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1:len(quoted)-1]) == name
	}
	var text string
	return json.Unmarshal(quoted, &text) == nil && text == name
}

// after returns the bytes after c, if b begins with blanks and c.
func after(b []byte, c byte) (rest []byte, ok bool) {
	if b = space(b); len(b) == 0 || b[0] != c {
		return nil, false
	}
	return b[1:], true
}

func space(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\n' || b[0] == '\t' || b[0] == '\r') {
		b = b[1:]
	}
	return b
}

// endOfValue returns the length of the value at the beginning of b. A result below 1 means that b does not
// begin with a value.
func endOfValue(b []byte) int {
	if len(b) == 0 {
		return -1
	}
	switch b[0] {
	case '"':
		return endOfString(b)
	case '{', '[':
		return endOfNested(b)
	}
	return bytes.IndexAny(b, ",}] \n\t\r")
}

func endOfNested(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		case '"':
			end := endOfString(b[i:])
			if end < 0 {
				return -1
			}
			i += end - 1
		}
	}
	return -1
}

// endOfString returns the length of the JSON string at the beginning of b, including its quotation marks. It
// returns -1 if b does not begin with a complete string.
func endOfString(b []byte) int {
	if len(b) == 0 || b[0] != '"' {
		return -1
	}
	for i := 1; ; i++ {
		next := bytes.IndexByte(b[i:], '"')
		if next < 0 {
			return -1
		}
		i += next
		escapes := 0
		for b[i-1-escapes] == '\\' { // the loop ends at the first quotation mark at the latest
			escapes++
		}
		// An odd number of backslashes escapes the quotation mark.
		if escapes%2 == 0 {
			return i + 1
		}
	}
}
