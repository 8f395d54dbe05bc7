package oncehttp

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/oncelib/once"
)

// routeOf returns the name of the route of r. Each route of a principal has its own keys.
func (p *plan) routeOf(r *http.Request) string {
	if p.Route != nil {
		return p.Route(r)
	}
	route := r.Pattern
	if route == "" {
		route = r.URL.EscapedPath()
	}
	if strings.IndexByte(route, ' ') < 0 { // the pattern contains no method
		route = r.Method + " " + route
	}
	return route
}

// fingerprint returns the hash of the compared parts of the request: method, route, path, query, content type and body, or the parts that
// Config.Compare chooses. It returns an error if the body is in a file that cannot be read.
func (x *Exchange) fingerprint(route string) (once.Fingerprint, error) {
	if ru := x.plan.rule; ru != nil {
		return ru.fingerprint(x, route)
	}
	r, path, contentType := x.r, pathOf(x.r), x.r.Header.Get("Content-Type")
	// A body in a file is hashed piece by piece, so that it needs no memory.
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
	var room [256]byte // on the stack, so that the usual case allocates nothing
	all := room[:0]
	for i, s := range text {
		all = append(all, s...)
		parts[i] = all[len(all)-len(s):]
	}
	parts[len(text)] = body
	return once.FingerprintOf(parts[:]...), nil
}

// comparedBody returns the content type and the bytes that are compared, in one piece or several. The whole body must be in memory.
func (x *Exchange) comparedBody(contentType string) (comparedType string, body []byte, pieces [][]byte) {
	body = x.body.memory
	switch read := x.plan.preset.Body; {
	case len(x.r.PostForm) > 0: // outer middleware has parsed the form, so the body cannot be read
		body = append([]byte(x.r.PostForm.Encode()), body...)
	case strings.HasPrefix(contentType, "multipart/"):
		contentType, pieces = withoutBoundary(contentType, body)
	case read != nil:
		body = read(contentType, body)
	}
	return contentType, body, pieces
}

// pathOf returns the path of r. If a router has changed the path, the path that the client has sent comes before it. Otherwise two routes under
// [http.StripPrefix] would look the same, and a charge on one route would count as a retry of a charge on the other. An unchanged path stays as it
// is, because stored fingerprints must not change.
func pathOf(r *http.Request) string {
	path := r.URL.EscapedPath()
	rest, same := strings.CutPrefix(r.RequestURI, path)
	if same && (rest == "" || rest[0] == '?') {
		return path
	}
	sent, err := url.ParseRequestURI(r.RequestURI) // empty if the request was made in this process
	if err != nil || sent.EscapedPath() == path {
		return path
	}
	return sent.EscapedPath() + " " + path
}
