package oncehttp

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

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

// scopeOf joins principal and route so that no two pairs give the same scope: a
// principal is somebody else's text, and must not be able to end in a route.
func scopeOf(principal, route string) string {
	if !printable(route) {
		route = url.PathEscape(route)
	}
	scope := url.PathEscape(principal) + " " + route
	if len(scope) < once.MaxScope {
		return scope
	}
	h := sha256.Sum256([]byte(scope))
	end := "~" + base64.RawURLEncoding.EncodeToString(h[:])
	head := scope[:once.MaxScope-len(end)]
	for !utf8.ValidString(head) { // cut in the middle of a character
		head = head[:len(head)-1]
	}
	return head + strings.Repeat("~", once.MaxScope-len(end)-len(head)) + end // exactly MaxScope: no short scope looks like this
}

func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
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
	text := x.text[:0]
	next := func(s string) []byte {
		text = append(text, s...)
		return text[len(text)-len(s):]
	}
	parts := [...][]byte{next(r.Method), next(route), next(path), next(r.URL.RawQuery), next(contentType), body}
	if pieces != nil {
		return once.FingerprintOf(append(parts[:5], pieces...)...)
	}
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
