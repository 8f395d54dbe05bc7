// Package recorded reads and writes files that contain one recorded HTTP request each. A recorded request was exported from one service, to be sent
// to another service, for example for a test.
//
// The file is a JSON object:
//
//	format       "once-request"
//	version      1
//	id           a unique id of the file; each replay has it in the header Once-Replay-Of
//	exported_at  when it was exported
//	operation    scope, key, fingerprint, state, since, status (of the recorded answer), trace
//	method       the method of the request
//	path         path and query of the request, exactly as they were received
//	host         the host that the request was sent to; a replay is never sent there
//	headers      the names of the headers, each with its lines
//	redacted     names of the headers that were left out as secrets
//	body         the bytes of the body, in base64
package recorded

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// format and version of the files that this release writes.
const (
	format  = "once-request"
	version = 1
)

// Request is a request that a service has stored with its operation (oncehttp.Config.CaptureRequest). The package documentation explains the fields
// of Request.
type Request struct {
	Format     string      `json:"format"`
	Version    int         `json:"version"`
	ID         string      `json:"id"`
	ExportedAt time.Time   `json:"exported_at"`
	Operation  Operation   `json:"operation"`
	Method     string      `json:"method"`
	Path       string      `json:"path"`
	Host       string      `json:"host"`
	Headers    http.Header `json:"headers"`
	Redacted   []string    `json:"redacted"`
	Body       []byte      `json:"body"`
}

// Operation has some fields of the operation to which the recorded request belongs. The values of the fields are the values that the service has
// stored.
type Operation struct {
	Scope       string    `json:"scope"`
	Key         string    `json:"key"` // the key as it is stored
	Fingerprint string    `json:"fingerprint,omitempty"`
	State       string    `json:"state"`
	Since       time.Time `json:"since"`
	Status      int       `json:"status,omitempty"`
	Trace       string    `json:"trace,omitempty"`
}

// secrets has parts of header names. Headers with such a name are always left out. A name too many costs the user an option --header, and a name too
// few leaks a secret. Package oncehttp already leaves out Authorization, Proxy-Authorization and Cookie.
var secrets = []string{
	"auth", "cookie", "token", "secret", "password", "passwd", "passphrase", "passcode", "credential", "session", "jwt", "assertion", "client-cert",
	"api-key", "apikey", "access-key", "subscription-key", "private-key", "functions-key", "encryption-key", "customer-key", "master-key", "account-key", "signing-key",
}

// secretWords has words that are compared as whole words, because they occur inside other words, such as "pin" in "shipping".
var secretWords = []string{"otp", "totp", "pin", "pwd", "dpop"}

// secretNames has the names of headers that identify the sender. The signature of a webhook, such as Stripe-Signature, is kept, because a replay
// needs it.
var secretNames = []string{"signature", "x-amz-signature"}

// IsSecret reports whether the name of a header suggests that its value is a secret.
func IsSecret(name string) bool {
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	return slices.Contains(secretNames, name) ||
		slices.ContainsFunc(secrets, func(part string) bool { return strings.Contains(name, part) }) ||
		slices.ContainsFunc(strings.Split(name, "-"), func(word string) bool { return slices.Contains(secretWords, word) })
}

// FromCapture parses a request that package oncehttp has captured. The result has neither headers that [IsSecret] recognises nor headers whose names
// are in redact.
func FromCapture(plain []byte, redact []string) (Request, error) {
	notHTTP := errors.New("the stored request was not captured by package oncehttp")
	in := bufio.NewReader(bytes.NewReader(plain))
	text := textproto.NewReader(in)
	line, err := text.ReadLine()
	if err != nil {
		return Request{}, notHTTP
	}
	r := Request{Format: format, Version: version, Redacted: []string{}}
	var target, protocol string
	r.Method, target, _ = strings.Cut(line, " ")
	if i := strings.LastIndexByte(target, ' '); i >= 0 {
		r.Path, protocol = target[:i], target[i+1:]
	}
	header, err := text.ReadMIMEHeader()
	if err != nil || protocol != "HTTP/1.1" {
		return Request{}, notHTTP
	}
	if r.Body, err = io.ReadAll(in); err != nil || header.Get("Content-Length") != strconv.Itoa(len(r.Body)) {
		return Request{}, notHTTP
	}
	r.Host, r.Headers = header.Get("Host"), http.Header(header)
	delete(r.Headers, "Host")
	delete(r.Headers, "Content-Length")
	for name := range r.Headers {
		same := func(secret string) bool { return strings.EqualFold(secret, name) }
		if IsSecret(name) || slices.ContainsFunc(redact, same) {
			delete(r.Headers, name)
			r.Redacted = append(r.Redacted, name)
		}
	}
	slices.Sort(r.Redacted)
	return r, nil
}

// Parse reads a request from the content of a file, and returns an error if the request is invalid.
func Parse(file []byte) (Request, error) {
	var r Request
	err := json.Unmarshal(file, &r)
	switch {
	case r.Format != format: // such a file may not even be JSON
		return r, errors.New("the file was not written by once keys export. Try: once keys export KEY --db URL")
	case r.Version != version:
		return r, fmt.Errorf("the file has version %d, but this release of once reads version %d. Try: the release of once that has written the file", r.Version, version)
	case err != nil:
		return r, fmt.Errorf("the request in the file is not valid: %w. Try: the file of the command \"once keys export\", without changes", err)
	}
	if err := r.check(); err != nil {
		return r, fmt.Errorf("the request in the file is not valid: %w. Try: the file of the command \"once keys export\", without changes", err)
	}
	return r, nil
}

// check returns an error if the request cannot be sent exactly as it was recorded.
func (r *Request) check() error {
	switch {
	case !isToken(r.Method):
		return fmt.Errorf("%q is not an HTTP method", r.Method)
	case !strings.HasPrefix(r.Path, "/"), strings.ContainsFunc(r.Path, func(c rune) bool { return c <= ' ' || c == 0x7f }):
		return fmt.Errorf("%q is not the path of a URL", r.Path)
	case r.ID == "", !isToken(r.ID):
		return fmt.Errorf("%q is not the ID of a request", r.ID)
	}
	if _, err := exactly(r.Path); err != nil {
		return fmt.Errorf("%q is not the path of a URL", r.Path)
	}
	if u, err := url.Parse("//" + r.Host); err != nil || u.Host != r.Host || u.Hostname() == "" {
		return fmt.Errorf("%q is not a host", r.Host)
	}
	for name, lines := range r.Headers {
		if !isToken(name) {
			return fmt.Errorf("%q is not the name of a header", name)
		}
		if slices.ContainsFunc(lines, func(line string) bool { return strings.ContainsAny(line, "\r\n\x00") }) {
			return fmt.Errorf("the header %s contains a line break or a zero byte", name)
		}
	}
	return nil
}

// isToken reports whether s can be a method or the name of a header.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return c <= ' ' || c >= 0x7f || strings.ContainsRune("\"(),/:;<=>?@[\\]{}", c)
	})
}
