package retryhttp

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

// problem has the members of a problem document (RFC 9457) that concern retries. For an answer 409 any JSON object counts.
type problem struct {
	code  string
	again bool // the document has "retryable": true
	final bool // the document has "retryable": false
}

// maxPeek is how many bytes of a problem document are read to classify it.
const maxPeek = 8 << 10

// peek returns the problem in the first bytes of resp. The body can still be read from its beginning.
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

// put is a body whose first bytes were read and are read again.
type put struct {
	io.Reader
	io.Closer
}

// parseProblem returns the members of a JSON object that concern retries. The text may be cut off, and may not be JSON.
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
			// If the name occurs twice, the last value counts.
			p.code = ""
			_ = json.Unmarshal(value, &p.code) // without a string there is no code
		case "retryable":
			p.again, p.final = string(value) == "true", string(value) == "false"
		}
	}
	return p
}
