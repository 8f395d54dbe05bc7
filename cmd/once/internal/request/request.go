// Package request reads a request that a person has pasted: a curl command, or an .http file. A part that it does not understand is an error, because
// another request than the intended one could take effect. Errors repeat no value: it may be a secret.
package request

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Request is a request that can be sent any number of times.
type Request struct {
	Method string
	URL    *url.URL
	Header http.Header
	Body   []byte
}

// Place is the address of the request, without parts that may be secret: user, password and query.
func (r *Request) Place() string {
	return r.Method + " " + r.URL.Scheme + "://" + r.URL.Host + r.URL.EscapedPath()
}

// New makes a request to send, with another body than r, and without a key.
func (r *Request) New(ctx context.Context, keyHeader string, body []byte) (*http.Request, error) {
	made, err := http.NewRequestWithContext(ctx, r.Method, r.URL.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	made.Header = r.Header.Clone()
	if host := made.Header.Get("Host"); host != "" {
		made.Host = host
	}
	for _, name := range []string{keyHeader, "Host", "Content-Length", "Transfer-Encoding", "Connection", "Expect"} {
		made.Header.Del(name)
	}
	return made, nil
}

// parseURL reads an address. Without a scheme it is http, as in curl.
func parseURL(text string) (*url.URL, error) {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("the URL is not valid. Try: put the URL into quotation marks")
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("the URL does not begin with http:// or https://. Try: http://localhost:8080/charges")
	}
	if u.Hostname() == "" {
		return nil, errors.New("the URL has no host. Try: http://localhost:8080/charges")
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// addHeader adds a line NAME: VALUE.
func addHeader(h http.Header, line string) error {
	name, value, ok := strings.Cut(line, ":")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	if !ok || !isToken(name) || strings.ContainsFunc(value, isControl) {
		return errors.New("a header does not have the form NAME: VALUE. Try: put the header into quotation marks")
	}
	h.Add(name, value)
	return nil
}

// isToken reports whether s can be the name of a header, or a method.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	})
}

func isControl(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }

// complete checks the request that was read.
func (r *Request) complete() error {
	if !isToken(r.Method) {
		return errors.New("the method is not one word. Try: POST")
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodConnect:
		return fmt.Errorf("a %s request has no effect, so it needs no key. Try: a request that creates something, such as a POST request", r.Method)
	}
	return nil
}
