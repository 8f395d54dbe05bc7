package oncehttp

import (
	"net/http"
	"strings"
)

// IfMatch evaluates the header If-Match of r (RFC 9110, section 13.1.1) against etag. etag is the current ETag of the resource with its quotation
// marks, such as `"v7"`, or "" if the resource does not exist. The result present reports whether r has the header If-Match. If present is true and
// ok is false, answer with 412 and change nothing. A weak ETag and a malformed If-Match header match nothing.
//
// Read the current version in the transaction that writes the next version, and make the write conditional on the current version, as in "update ...
// where version = 7". If-Match says only which version the client has seen; only the write can check that this version is still the latest.
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
		etag = "" // a weak tag, or no tag, matches nothing
	}
	return matches(list, etag), true
}

// matches reports whether list is a valid list of tags that contains etag.
func matches(list, etag string) (found bool) {
	for {
		list = strings.TrimLeft(list, " \t,") // RFC 9110 allows empty elements
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

// cutTag removes a strong tag, with its quotation marks, from the beginning of s.
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
