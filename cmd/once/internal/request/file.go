package request

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// ParseFile reads an .http file with one request, as editors have them: METHOD URL, headers, an empty line, and the body. Lines that
// begin with # or // are comments before the body; ### begins a request.
func ParseFile(text []byte) (*Request, error) {
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	if bytes.Contains(text, []byte("{{")) {
		return nil, errors.New("the file has a variable such as {{NAME}}. Try: write the value in place of the variable")
	}
	var found []string
	var part strings.Builder
	flush := func() {
		if hasRequest(part.String()) {
			found = append(found, part.String())
		}
		part.Reset()
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "###") {
			flush()
			continue
		}
		part.WriteString(line)
	}
	flush()
	if len(found) != 1 {
		return nil, fmt.Errorf("the file has %d requests. Try: use a file with one request, which begins with POST and its URL", len(found))
	}
	return parsePart(found[0])
}

func isComment(line string) bool {
	return strings.HasPrefix(line, "#") || strings.HasPrefix(line, "//")
}

func hasRequest(part string) bool {
	for line := range strings.Lines(part) {
		if line = strings.TrimSpace(line); line != "" && !isComment(line) {
			return true
		}
	}
	return false
}

func parsePart(part string) (*Request, error) {
	r := &Request{Header: http.Header{}}
	for part != "" {
		line, rest, _ := strings.Cut(part, "\n")
		part = rest
		switch line = strings.TrimSpace(line); {
		case isComment(line):
		case line == "" && r.URL != nil:
			return r, r.body(part)
		case line == "":
		case r.URL == nil:
			if err := r.first(line); err != nil {
				return nil, err
			}
		default:
			if err := addHeader(r.Header, line); err != nil {
				return nil, err
			}
		}
	}
	return r, r.complete()
}

// first reads the line METHOD URL, optionally with the version of HTTP.
func (r *Request) first(line string) error {
	words := strings.Fields(line)
	if len(words) == 3 && strings.HasPrefix(words[2], "HTTP/") {
		words = words[:2]
	}
	if len(words) != 2 {
		return errors.New("the first line of the request must have the form METHOD URL. Try: POST http://localhost:8080/charges")
	}
	u, err := parseURL(words[1])
	if err != nil {
		return err
	}
	if u.User != nil {
		return errors.New("the URL contains a user. Try: use the header Authorization")
	}
	r.Method, r.URL = words[0], u
	return nil
}

// body takes the rest of the file, without its trailing line ends.
func (r *Request) body(text string) error {
	text = strings.TrimRight(text, " \t\n")
	switch {
	case strings.HasPrefix(text, "< "), strings.HasPrefix(text, "<@"):
		return errors.New("the request takes its body from another file. Try: write the body itself into the request")
	case strings.Contains(text, "\n> "), strings.HasPrefix(text, "> "):
		return errors.New("the file has a script after the body. Try: use a file without the script")
	}
	if text != "" {
		r.Body = []byte(text)
	}
	return r.complete()
}
