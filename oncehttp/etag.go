package oncehttp

import (
	"net/http"
	"strings"
)

// IfMatch evaluates the If-Match field of r (RFC 9110, section 13.1.1) against etag,
// the present ETag of the resource as it would be sent, such as `"v7"`, or "" if there
// is no such resource. If present and not ok, the answer is 412 and nothing is to be
// changed. A weak tag matches nothing, and neither does a malformed field.
//
// Read the present version in the transaction that writes the next one, and let the
// write depend on it, as in UPDATE ... WHERE version = 7: the field says which version
// the client has seen, only the write can say that it is still the last.
func IfMatch(r *http.Request, etag string) (ok, present bool) {
	lines := r.Header["If-Match"]
	if len(lines) == 0 {
		return false, false
	}
	list := lines[0]
	if len(lines) > 1 {
		list = strings.Join(lines, ",")
	}
	if strings.Trim(list, " \t") == "*" {
		return etag != "", true
	}
	if rest, valid := cutTag(etag); !valid || rest != "" {
		etag = "" // weak or not a tag: it matches nothing
	}
	return matches(list, etag), true
}

// matches reports whether list is a list of tags and has etag among them.
func matches(list, etag string) (found bool) {
	for {
		list = strings.TrimLeft(list, " \t,") // empty elements are allowed
		if list == "" {
			return found
		}
		strong, weak := strings.CutPrefix(list, "W/")
		rest, valid := cutTag(strong)
		if !valid {
			return false
		}
		found = found || !weak && etag != "" && strong[:len(strong)-len(rest)] == etag
		list = strings.TrimLeft(rest, " \t")
		if list != "" && list[0] != ',' {
			return false
		}
	}
}

// cutTag cuts a strong tag, quotes included, off the front of s.
func cutTag(s string) (rest string, valid bool) {
	if s == "" || s[0] != '"' {
		return s, false
	}
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return s[i+1:], true
		case c < 0x21 || c == 0x7f:
			return s, false
		}
	}
	return s, false
}
