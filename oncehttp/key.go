package oncehttp

import (
	"bytes"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"

	"github.com/oncelib/once"
)

// keyError is why a request has no usable key. Its text goes to the client.
type keyError struct {
	detail string
	usable bool // what was sent may name an operation all the same
}

func (e *keyError) Error() string { return e.detail }

// headerKey returns the key in the headers of r, "" if there is none.
func (p *plan) headerKey(r *http.Request) (key string, err error) {
	for _, name := range p.preset.KeyHeaders {
		lines, sent := r.Header[name]
		if !sent {
			continue
		}
		if len(lines) != 1 {
			return "", &keyError{"Send one " + name + " header, not several.", true}
		}
		k, err := p.parseKey(lines[0])
		if err != nil {
			return "", err
		}
		if key != "" && k != key {
			return "", errTwoKeys
		}
		key = k
	}
	return key, nil
}

var errTwoKeys = &keyError{"The request carries two different idempotency keys.", true}

// keySent reports whether r has a header that would hold a key.
func (p *plan) keySent(r *http.Request) bool {
	for _, name := range p.preset.KeyHeaders {
		if len(r.Header[name]) > 0 {
			return true
		}
	}
	return false
}

// bodyKey returns the key of r given the one in its headers: Config.Key and forms
// need the body, which has been read.
func (p *plan) bodyKey(r *http.Request, read []byte, key string) (string, error) {
	if p.Key != nil {
		b := &body{rest: read}
		defer b.end()
		seen := r.WithContext(r.Context())
		seen.Body = b
		key, err := p.Key(seen)
		if err != nil {
			return "", &keyError{err.Error(), true}
		}
		return checked(key)
	}
	if p.FormField == "" {
		return key, nil
	}
	values := formValues(r, read, p.FormField)
	if len(values) == 0 {
		return key, nil
	}
	if len(values) > 1 || key != "" && key != values[0] {
		return "", errTwoKeys
	}
	if values[0] == "" {
		return "", errEmpty
	}
	return checked(values[0])
}

var errEmpty = &keyError{"The idempotency key is empty.", false}

// checked returns key, which may be empty, if it can be used.
func checked(key string) (string, error) {
	if err := once.CheckKey(key); key != "" && err != nil {
		return "", &keyError{"The idempotency key cannot be used: " + err.Error() + ".", false}
	}
	return key, nil
}

// parseKey reads the value of a key header.
func (p *plan) parseKey(value string) (string, error) {
	if !p.preset.OpaqueKeys {
		return parseKey(value, p.Strict)
	}
	if value = strings.Trim(value, " \t"); value == "" {
		return "", errEmpty
	}
	return checked(value)
}

// parseKey reads the value of a key header: a String of RFC 9651, whose parameters
// do not matter, or the key itself in printable ASCII. A bare key has no quotation
// mark, comma or semicolon in it: it could be half of something else.
func parseKey(value string, strict bool) (string, error) {
	value = strings.Trim(value, " \t")
	if value == "" {
		return "", errEmpty
	}
	key := value
	if value[0] == '"' {
		var err error
		if key, err = parseString(value); err != nil {
			return "", &keyError{"The idempotency key is malformed: " + err.Error() + `. Send it as "key", with \ before each \ and ".`, true}
		}
		if key == "" {
			return "", errEmpty
		}
		return checked(key)
	}
	if strict {
		return "", &keyError{`Send the idempotency key in quotation marks: "key".`, true}
	}
	for i := range len(key) {
		switch c := key[i]; {
		case c < 0x20 || c > 0x7e:
			return "", &keyError{"The idempotency key has characters other than printable ASCII.", false}
		case c == '"' || c == ',' || c == ';':
			return "", &keyError{`An idempotency key with a quotation mark, comma or semicolon must be sent as "key", with \ before each \ and ".`, true}
		}
	}
	return checked(key)
}

// formValues returns the values of a form field. A body that is not a form, or
// not a correct one, has none.
func formValues(r *http.Request, body []byte, field string) []string {
	if len(r.PostForm) > 0 { // somebody has parsed it before us, and the body is gone
		return r.PostForm[field]
	}
	mediaType, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case err != nil:
		return nil
	case mediaType == "application/x-www-form-urlencoded":
		form, _ := url.ParseQuery(string(body))
		return form[field]
	case mediaType == "multipart/form-data":
		return partValues(multipart.NewReader(bytes.NewReader(body), params["boundary"]), field)
	}
	return nil
}

func partValues(parts *multipart.Reader, field string) (values []string) {
	for {
		part, err := parts.NextPart()
		if err != nil {
			return values
		}
		if part.FormName() != field || part.FileName() != "" {
			continue
		}
		value, err := io.ReadAll(io.LimitReader(part, once.MaxKey+1))
		if err != nil {
			return values
		}
		values = append(values, string(value))
	}
}

// ParseKey returns the key in the value of a key header, as the middleware reads it: a
// String of RFC 9651 or a bare key. The text of the error is for the client.
func ParseKey(value string) (string, error) { return parseKey(value, false) }
