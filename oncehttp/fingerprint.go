package oncehttp

import (
	"bytes"
	"mime"
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
// body.
func (x *exchange) fingerprint(route string) once.Fingerprint {
	p, r, body := x.plan, x.r, x.body
	path, contentType := pathOf(r), r.Header.Get("Content-Type")
	var pieces [][]byte
	switch {
	case len(r.PostForm) > 0: // middleware before us has parsed the form, and the body is gone
		body = append([]byte(r.PostForm.Encode()), body...)
	case strings.HasPrefix(contentType, "multipart/"):
		contentType, pieces = withoutBoundary(contentType, body)
	case p.preset.Body != nil:
		body = p.preset.Body(contentType, body)
	}
	text := [...]string{r.Method, route, path, r.URL.RawQuery, contentType}
	if pieces != nil {
		var parts [][]byte
		for _, s := range text {
			parts = append(parts, []byte(s))
		}
		return once.FingerprintOf(append(parts, pieces...)...)
	}
	var parts [len(text) + 1][]byte
	var room [256]byte // on the stack, as all of this is
	all := room[:0]
	for i, s := range text {
		all = append(all, s...)
		parts[i] = all[len(all)-len(s):]
	}
	parts[len(text)] = body
	return once.FingerprintOf(parts[:]...)
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

// withoutBoundary takes the boundary out of a multipart body and its type. What it
// separates stays separate: it becomes a list. A body in which the boundary also stands where
// it separates nothing is left as it is: readers do not agree on what that means.
func withoutBoundary(contentType string, body []byte) (string, [][]byte) {
	mediaType, params, err := mime.ParseMediaType(contentType)
	boundary := params["boundary"]
	if err != nil || boundary == "" {
		return contentType, nil
	}
	opening := []byte("--" + boundary)
	rest, opens := bytes.CutPrefix(body, opening)
	delimiter := append([]byte("\r\n"), opening...)
	parts := bytes.Split(rest, delimiter)
	opens = opens && bytes.Count(rest, delimiter[1:]) == len(parts)-1 // none behind LF alone
	for _, part := range parts {
		opens = opens && followsDelimiter(part)
	}
	if !opens {
		return contentType, nil
	}
	delete(params, "boundary") // the others say what the parts mean
	return mime.FormatMediaType(mediaType, params), parts
}

// followsDelimiter reports whether a boundary is a delimiter that rest follows on (RFC 2046, section
// 5.1.1): padding and the end of the line, and in front of them "--" behind the last part.
func followsDelimiter(rest []byte) bool {
	rest, closes := bytes.CutPrefix(rest, []byte("--"))
	rest = bytes.TrimLeft(rest, " \t")
	return bytes.HasPrefix(rest, []byte("\r\n")) || closes && len(rest) == 0
}
