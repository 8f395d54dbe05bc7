package oncehttp

import (
	"bytes"
	"mime"
	"net/http"
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
	path, contentType := r.URL.EscapedPath(), r.Header.Get("Content-Type")
	var pieces [][]byte
	switch {
	case len(r.PostForm) > 0: // middleware before us has parsed the form, and the body is gone
		body = append([]byte(r.PostForm.Encode()), body...)
	case strings.HasPrefix(contentType, "multipart/"):
		contentType, pieces = unbound(contentType, body)
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

// unbound takes the boundary out of a multipart body and its type. What it
// separates stays separate: it becomes a list.
func unbound(contentType string, body []byte) (string, [][]byte) {
	mediaType, params, err := mime.ParseMediaType(contentType)
	boundary := params["boundary"]
	if err != nil || boundary == "" {
		return contentType, nil
	}
	opening := []byte("--" + boundary)
	rest, opens := bytes.CutPrefix(body, opening)
	if !opens {
		return contentType, nil
	}
	return mediaType, bytes.Split(rest, append([]byte("\r\n"), opening...))
}
