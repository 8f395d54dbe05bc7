package retryhttp

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

// problem has the members of a problem document (RFC 9457) about retries, or, with 409, of any JSON.
type problem struct {
	code  string
	again bool // it says "retryable": true
	final bool // it says "retryable": false
}

// maxPeek is the largest number of bytes of a problem document that are read to classify it.
const maxPeek = 8 << 10

// peek reads the problem in the first bytes of resp and leaves its body unchanged.
func peek(resp *http.Response, most int64) (problem, error) {
	mediaType, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	switch strings.ToLower(strings.TrimSpace(mediaType)) {
	case "application/problem+json":
	case "application/json":
		if resp.StatusCode != http.StatusConflict {
			return problem{}, nil
		}
	default:
		return problem{}, nil
	}
	head, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil {
		return problem{}, err
	}
	resp.Body = &put{io.MultiReader(bytes.NewReader(head), resp.Body), resp.Body}
	return parseProblem(head), nil
}

// put is a body whose first bytes were read and put back.
type put struct {
	io.Reader
	io.Closer
}

// parseProblem reads the members that matter of a JSON object, which may be cut off, and may not be JSON at all.
func parseProblem(text []byte) (p problem) {
	d := json.NewDecoder(bytes.NewReader(text))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return p
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return p
		}
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return p
		}
		switch name {
		case "code":
			p.code = ""
			_ = json.Unmarshal(value, &p.code) // not a string: no code
		case "retryable":
			p.again, p.final = string(value) == "true", string(value) == "false"
		}
	}
	return p
}
