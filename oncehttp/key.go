package oncehttp

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/base/wire"
)

// KeyFormat is the form of the keys of a route. A key of another form is refused with 400, VALIDATION.idempotency_key_invalid, before any look-up.
// In the answer that refuses a key, Problem.SafeNewKey is false, because the route may have accepted keys of the refused form before.
type KeyFormat struct {
	// UUID accepts only UUIDs (RFC 9562), of any version: 36 characters, in lower case. A UUID with capital letters is refused, and not converted to
	// lower case: other systems see the key in capitals and the key in lower case as two operations, and some clients change the case between two
	// attempts. A UUID whose bits are all zeros or all ones is refused too, because it comes from a client that has not generated a key.
	UUID bool

	// MinLength and MaxLength are the smallest and the largest length of a key, in bytes. Default: 1 and 255.
	MinLength, MaxLength int

	// Check returns an error if a key does not have the form that your program requires. The client receives the text of the error of Check. Default:
	// nil, no further check.
	Check func(key string) error
}

func (f *KeyFormat) invalid() string {
	most := cmp.Or(f.MaxLength, once.MaxKey)
	switch {
	case f.MinLength < 0 || f.MinLength > most || most > once.MaxKey || most < 1:
		return fmt.Sprintf("KeyFormat has the bounds %d and %d.\nTry: 1 to %d bytes.", f.MinLength, most, once.MaxKey)
	case f.UUID && (f.MinLength != 0 || f.MaxLength != 0):
		return "KeyFormat has UUID and bounds of the length.\nTry: UUID alone, which has 36 bytes."
	}
	return ""
}

// check returns an error if a key does not have the form of the route.
func (f *KeyFormat) check(key string) error {
	refuse := func(detail string) error { return &wire.KeyError{Detail: detail, MayBeUsed: true} } // the key may have been used before the route had this format
	switch {
	case key == "": // without a key there is nothing to check
		return nil
	case f.UUID && !isUUID(key):
		return refuse("The idempotency key must be a UUID in lower case with hyphens and without other characters, such as 8e03978e-40d5-43e8-bc93-6894a57f9324.")
	// Only the UUIDs of all zeros and of all ones repeat their first digit 32 times, and both come from faulty clients.
	case f.UUID && strings.Count(key, key[:1]) == 32:
		return refuse("The idempotency key is a UUID of 32 equal digits, which cannot be a key. Make a new key for each intent.")
	case len(key) < f.MinLength:
		return refuse(fmt.Sprintf("The idempotency key has %d bytes, and at least %d are needed, because two intents could have the same short key.", len(key), f.MinLength))
	case f.MaxLength > 0 && len(key) > f.MaxLength:
		return refuse(fmt.Sprintf("The idempotency key has %d bytes, and at most %d are allowed.", len(key), f.MaxLength))
	}
	if f.Check != nil {
		if err := f.Check(key); err != nil {
			return refuse(err.Error())
		}
	}
	return nil
}

// isUUID reports whether s is a UUID in the form that RFC 9562 requires for output.
func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
				return false
			}
		}
	}
	return true
}

// headerKey returns the key in the headers of r, or "". After an unusable header it still reads the other sources of keys, because one of them may
// contain a key that was used.
func (p *plan) headerKey(r *http.Request) (key string, err error) {
	carried := p.FormField != "" && r.ContentLength != 0 // the form was not read yet, and may contain a key
	var unusable *wire.KeyError
	for _, name := range p.preset.KeyHeaders {
		lines, sent := r.Header[name]
		if !sent {
			continue
		}
		k, err := p.lineKey(name, lines)
		switch {
		case err != nil:
			carried = carried || err.MayBeUsed || p.FormField != "" && keyname.Check(strings.Trim(lines[0], " \t")) == nil // a form field has no syntax, so this text may be a key there
			unusable = cmp.Or(unusable, err)
		case key != "" && k != key:
			return "", errTwoKeys
		default:
			key = k
		}
	}
	if unusable != nil {
		// A new key is safe only if the request has no other key that was used.
		return "", &wire.KeyError{Detail: unusable.Detail, MayBeUsed: carried || key != ""}
	}
	return key, p.KeyFormat.check(key)
}

// lineKey returns the key in the lines of one header.
func (p *plan) lineKey(name string, lines []string) (key string, unusable *wire.KeyError) {
	if len(lines) != 1 {
		return "", &wire.KeyError{Detail: "Send one " + name + " header, not several.", MayBeUsed: true}
	}
	key, err := p.parseKey(lines[0])
	errors.As(err, &unusable) // parseKey returns no other type of error
	return key, unusable
}

var errTwoKeys = &wire.KeyError{Detail: "The request carries two different idempotency keys.", MayBeUsed: true}

// keySent reports whether r has a header that could contain a key.
func (p *plan) keySent(r *http.Request) bool {
	for _, name := range p.preset.KeyHeaders {
		if len(r.Header[name]) > 0 {
			return true
		}
	}
	return false
}

// bodyKey returns the key of r. The parameter key is the key in its headers. Config.Key and forms need the body, which was already read.
func (p *plan) bodyKey(r *http.Request, read *content, key string) (string, error) {
	if p.Key != nil {
		b := newBody(read)
		// Config.Key may keep the body, whose buffer is used again later.
		defer b.end()
		// A copy, so that Config.Key does not change the request of the handler.
		seen := r.WithContext(r.Context())
		seen.Body = b
		key, err := p.Key(seen)
		switch {
		case err != nil:
			return "", &wire.KeyError{Detail: err.Error(), MayBeUsed: true}
		case key == "":
			return "", nil // the request has no key
		}
		return p.checkedKey(key)
	}
	if p.FormField == "" {
		return key, nil
	}
	values, _ := formValues(r, read.memory, p.FormField)
	if len(values) == 0 {
		return key, nil
	}
	if len(values) > 1 || key != "" && key != values[0] {
		return "", errTwoKeys
	}
	return p.checkedKey(values[0])
}

// checkedKey returns a key without the syntax around it, or an error if the key does not have the form of the route.
func (p *plan) checkedKey(key string) (string, error) {
	key, err := wire.OpaqueKey(key)
	if err == nil {
		err = p.KeyFormat.check(key)
	}
	return key, err
}

// parseKey returns the key in the value of a header.
func (p *plan) parseKey(value string) (string, error) {
	if p.preset.OpaqueKeys {
		return wire.OpaqueKey(strings.Trim(value, " \t"))
	}
	return wire.ParseKey(value, p.preset.QuotedKeys)
}

// keyMayBeInForm reports whether r, which has no key so far, may have a key in a form that cannot be read completely.
func (p *plan) keyMayBeInForm(r *http.Request, body []byte) bool {
	if p.Key != nil || p.FormField == "" {
		return false
	}
	_, err := formValues(r, body, p.FormField)
	return err != nil
}

// formValues returns the values of a form field. A body that is not a form has no values. If a form has an error, the values before the error are
// returned.
func formValues(r *http.Request, body []byte, field string) ([]string, error) {
	if len(r.PostForm) > 0 { // outer middleware has parsed the form, so the body cannot be read
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
			err = io.ErrUnexpectedEOF // mime/multipart accepts a form that ends in the head of a part
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
		// A file is not a key.
		if part.FormName() != field || part.FileName() != "" {
			continue
		}
		// A longer value is not a key, so the rest of it is not read.
		value, err := io.ReadAll(io.LimitReader(part, once.MaxKey+1))
		if err != nil {
			return values, err
		}
		values = append(values, string(value))
	}
}
