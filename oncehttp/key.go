package oncehttp

import (
	"bytes"
	"cmp"
	"errors"
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

// headerKey returns the key in the headers of r, "" if there is none. A header that cannot
// be used does not hide the other sources: an operation may have what they carry as its key.
func (p *plan) headerKey(r *http.Request) (key string, err error) {
	carried := p.FormField != "" && r.ContentLength != 0 // the form has not been read yet
	var unusable *keyError
	for _, name := range p.preset.KeyHeaders {
		lines, sent := r.Header[name]
		if !sent {
			continue
		}
		k, err := p.lineKey(name, lines)
		switch {
		case err != nil:
			carried = carried || err.usable || p.FormField != "" && once.CheckKey(strings.Trim(lines[0], " \t")) == nil // a field has no syntax
			unusable = cmp.Or(unusable, err)
		case key != "" && k != key:
			return "", errTwoKeys
		default:
			key = k
		}
	}
	if unusable != nil {
		return "", &keyError{unusable.detail, carried || key != ""}
	}
	return key, nil
}

// lineKey returns the key in the lines of one header.
func (p *plan) lineKey(name string, lines []string) (string, *keyError) {
	if len(lines) != 1 {
		return "", &keyError{"Send one " + name + " header, not several.", true}
	}
	key, err := p.parseKey(lines[0])
	return key, asKeyError(err)
}

func asKeyError(err error) (k *keyError) {
	errors.As(err, &k)
	return k
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
	values, _ := formValues(r, read, p.FormField)
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

// keyUnread reports whether r, whose key is missing, may carry one in a form that cannot be
// read to its end.
func (p *plan) keyUnread(r *http.Request, body []byte) bool {
	if p.Key != nil || p.FormField == "" {
		return false
	}
	_, err := formValues(r, body, p.FormField)
	return err != nil
}

// formValues returns the values of a form field. A body that is not a form has none; of a
// form with an error these are the values that can be read.
func formValues(r *http.Request, body []byte, field string) ([]string, error) {
	if len(r.PostForm) > 0 { // somebody has parsed it before us, and the body is gone
		return r.PostForm[field], nil
	}
	mediaType, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case err != nil && len(body) > 0:
		return nil, err
	case mediaType == "application/x-www-form-urlencoded":
		form, err := url.ParseQuery(string(body))
		return form[field], err
	case mediaType == "multipart/form-data":
		values, err := partValues(multipart.NewReader(bytes.NewReader(body), params["boundary"]), field)
		if err == nil && !bytes.Contains(body, []byte("--"+params["boundary"]+"--")) {
			err = io.ErrUnexpectedEOF // the reader takes a form that is cut off in the head of a part for a whole one
		}
		return values, err
	}
	return nil, nil
}

func partValues(parts *multipart.Reader, field string) (values []string, err error) {
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return values, nil
		}
		if err != nil {
			return values, err
		}
		if part.FormName() != field || part.FileName() != "" {
			continue
		}
		value, err := io.ReadAll(io.LimitReader(part, once.MaxKey+1))
		if err != nil {
			return values, err
		}
		values = append(values, string(value))
	}
}

// ParseKey returns the key in the value of a key header, as the middleware reads it: a
// String of RFC 9651 or a bare key. The text of the error is for the client.
func ParseKey(value string) (string, error) { return parseKey(value, false) }
