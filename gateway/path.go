package gateway

import (
	"net/url"
	"slices"
	"strings"
)

// Services read one path in different ways. A servlet container cuts the parameters of each segment, such as ";x=1". Some services cut or resolve
// segments before they decode them, others afterwards. Empty segments, encoded slashes and backslashes are read in different ways too.

// readings returns a path in the forms in which a service may read it. The first form is the path as the client has sent it, in which an encoded slash
// does not separate segments.
func readings(u *url.URL) []*url.URL {
	all := []*url.URL{{Path: u.Path, RawPath: u.RawPath}}
	if u.RawPath == "" && strings.HasPrefix(u.Path, "/") && !strings.ContainsAny(u.Path, `;\`) && !strings.Contains(u.Path, "//") && !strings.Contains(u.Path, "/.") {
		return all // all services read it in the same way
	}
	sent, plain := strings.Split(u.EscapedPath(), "/"), strings.Split(u.Path, "/")
	cut, decoded := each(sent, withoutParameters), each(sent, decode)
	for _, segments := range [][]string{plain, each(plain, withoutParameters), segmentsOf(u.Path), decoded, each(decoded, withoutParameters), each(cut, decode)} {
		all = append(all, joined(resolve(segments, true)), joined(resolve(segments, false)))
	}
	for _, segments := range [][]string{sent, cut} { // decoded after dots are resolved
		all = append(all, joined(each(resolve(segments, true), decode)), joined(each(resolve(segments, false), decode)))
	}
	return all
}

// joined returns the path that has these segments.
func joined(segments []string) *url.URL {
	return &url.URL{Path: "/" + strings.Join(segments, "/"), RawPath: "/" + strings.Join(each(segments, url.PathEscape), "/")}
}

func each(segments []string, change func(string) string) []string {
	out := make([]string, len(segments))
	for i, s := range segments {
		out[i] = change(s)
	}
	return out
}

func decode(segment string) string {
	s, err := url.PathUnescape(segment)
	if err != nil {
		return segment
	}
	return s
}

func withoutParameters(segment string) string {
	s, _, _ := strings.Cut(segment, ";")
	return s
}

// segmentsOf returns the segments of a decoded path without their parameters. A backslash separates segments as a slash does.
func segmentsOf(p string) []string {
	return each(strings.Split(strings.ReplaceAll(p, `\`, "/"), "/"), withoutParameters)
}

// resolve returns the segments that are left after "." and ".." are resolved and empty segments are removed. If collapses is true, empty segments
// are removed first. Otherwise ".." may remove an empty segment, and a path that ends with "." or ".." gets a slash at its end, as in RFC 3986.
func resolve(segments []string, collapses bool) (left []string) {
	for _, s := range segments {
		switch {
		case s == "..":
			left = left[:max(0, len(left)-1)]
		case s == ".", s == "" && collapses:
		default:
			left = append(left, s)
		}
	}
	left = slices.DeleteFunc(left, func(s string) bool { return s == "" })
	if end := segments[len(segments)-1]; end == "" || !collapses && (end == "." || end == "..") {
		left = append(left, "")
	}
	return left
}

// isHidden reports whether a service may read a decoded path as one that begins with the prefix hidden, in any letter case. If the path has ".." or
// parameters, it depends on the service which segments of the path remain. Then it is enough that the segments of hidden are in the path, in their
// order.
func isHidden(p, hidden string) bool {
	p, hidden = strings.ToLower(p), strings.ToLower(hidden)
	segments := segmentsOf(p)
	if strings.HasPrefix("/"+strings.Join(resolve(segments, true), "/"), hidden) {
		return true
	}
	if !strings.Contains(p, ";") && !slices.Contains(segments, "..") {
		return false
	}
	rest := strings.Split(strings.Trim(hidden, "/"), "/")
	for _, s := range segments {
		if len(rest) == 1 && strings.HasPrefix(s, rest[0]) {
			return true
		}
		if s == rest[0] {
			rest = rest[1:]
		}
	}
	return false
}
