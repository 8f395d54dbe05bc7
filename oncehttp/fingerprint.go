package oncehttp

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/oncelib/once"
)

// routeOf returns what the key of r is unique within, for one principal.
func (p *plan) routeOf(r *http.Request) string {
	if p.Route != nil {
		return p.Route(r)
	}
	route := r.Pattern
	if route == "" {
		route = r.URL.EscapedPath()
	}
	if strings.IndexByte(route, ' ') < 0 { // the pattern names no method
		route = r.Method + " " + route
	}
	return route
}

// fingerprint hashes what is asked for: method, route, path, query, content type and
// body, or what Config.Compare has chosen. It fails if the body is in a file that cannot be read.
func (x *Exchange) fingerprint(route string) (once.Fingerprint, error) {
	if ru := x.plan.rule; ru != nil {
		return ru.fingerprint(x, route)
	}
	r, path, contentType := x.r, pathOf(x.r), x.r.Header.Get("Content-Type")
	if x.body.file != nil && len(r.PostForm) == 0 {
		return fingerprintFile(x.body.file, x.body.size, contentType, r.Method, route, path, r.URL.RawQuery)
	}
	contentType, body, pieces := x.comparedBody(contentType)
	text := [...]string{r.Method, route, path, r.URL.RawQuery, contentType}
	if pieces != nil {
		var parts [][]byte
		for _, s := range text {
			parts = append(parts, []byte(s))
		}
		return once.FingerprintOf(append(parts, pieces...)...), nil
	}
	var parts [len(text) + 1][]byte
	var room [256]byte // on the stack, as all of this is
	all := room[:0]
	for i, s := range text {
		all = append(all, s...)
		parts[i] = all[len(all)-len(s):]
	}
	parts[len(text)] = body
	return once.FingerprintOf(parts[:]...), nil
}

// comparedBody returns what is compared of a body in memory, where all of it is: its type, and it as one piece or several.
func (x *Exchange) comparedBody(contentType string) (comparedType string, body []byte, pieces [][]byte) {
	body = x.body.memory
	switch read := x.plan.preset.Body; {
	case len(x.r.PostForm) > 0: // middleware before us has parsed the form, and the body is gone
		body = append([]byte(x.r.PostForm.Encode()), body...)
	case strings.HasPrefix(contentType, "multipart/"):
		contentType, pieces = withoutBoundary(contentType, body)
	case read != nil:
		body = read(contentType, body)
	}
	return contentType, body, pieces
}

// pathOf returns the path of r, and in front of it the one that was sent, if that is
// another: [http.StripPrefix] and routers that rewrite a path make two routes look alike,
// and a charge on one must not pass for a retry of a charge on the other. Where nothing was
// rewritten it is what it always was, since fingerprints are stored.
func pathOf(r *http.Request) string {
	path := r.URL.EscapedPath()
	rest, same := strings.CutPrefix(r.RequestURI, path)
	if same && (rest == "" || rest[0] == '?') {
		return path
	}
	sent, err := url.ParseRequestURI(r.RequestURI) // "": made in this process
	if err != nil || sent.EscapedPath() == path {
		return path
	}
	return sent.EscapedPath() + " " + path
}
