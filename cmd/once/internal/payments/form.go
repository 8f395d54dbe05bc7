package payments

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/oncelib/once/oncehttp"
)

const (
	maxBody = 64 << 10

	// MaxAmount is the largest amount that every JSON reader represents exactly, even readers with floating point only.
	MaxAmount = 1<<53 - 1
)

// form is a JSON object from which a request is read, strictly. encoding/json takes the last of two members with the same name and ignores their
// case. Where money is moved, such a body must be refused, because its meaning would be a guess.
type form struct {
	members map[string]json.RawMessage
	wrong   []fieldError
}

// readForm reads the body of r. Its error is a *problem.
func readForm(r *http.Request) (*form, error) {
	body, err := readBody(r, maxBody)
	if err != nil {
		return nil, err
	}
	return parseForm(body)
}

// noBody refuses a request with a body, because the handler would ignore the body. It accepts an empty body and {}.
func noBody(r *http.Request) error {
	body, err := readBody(r, maxBody)
	if err != nil || len(body) == 0 {
		return err
	}
	f, err := parseForm(body)
	if err != nil {
		return err
	}
	return f.err()
}

func readBody(r *http.Request, most int) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, int64(most)+1))
	switch {
	case err != nil:
		return nil, refusal(http.StatusBadRequest, oncehttp.ProblemBodyUnreadable, "The body could not be read.")
	case len(body) > most:
		return nil, bodyTooLarge(most)
	}
	return body, nil
}

func parseForm(body []byte) (*form, error) {
	f := &form{members: map[string]json.RawMessage{}}
	if !utf8.Valid(body) {
		return nil, badJSON("it is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if open, err := d.Token(); err != nil {
		return nil, badJSON(syntax(err))
	} else if open != json.Delim('{') {
		return nil, badJSON("it is not an object")
	}
	key := ""
	broken := func(err error) error {
		if key == "" {
			return badJSON(syntax(err))
		}
		return f.refuse(http.StatusBadRequest, key, "invalid_json", "is not valid JSON, or the text after this field is not valid JSON: "+syntax(err))
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, broken(err)
		}
		key, _ = name.(string) // the decoder allows only a string before a colon
		if _, twice := f.members[key]; twice {
			return nil, f.refuse(http.StatusBadRequest, key, "duplicate_field", "is there twice")
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, broken(err)
		}
		f.members[key] = value
	}
	if _, err := d.Token(); err != nil {
		return nil, broken(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, badJSON("something follows the object")
	}
	return f, nil
}

func badJSON(why string) *problem {
	return refusal(http.StatusBadRequest, "VALIDATION.invalid_json", "The body is not the JSON object that is expected: "+why+".")
}

func syntax(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "it ends too early"
	}
	return strings.TrimSuffix(err.Error(), ".")
}

// take returns a member and removes it. The members that are left at the end are unknown.
func (f *form) take(name string) (json.RawMessage, bool) {
	value, ok := f.members[name]
	delete(f.members, name)
	if !ok || string(value) == "null" {
		f.fail(name, "missing_field", "is required")
		return nil, false
	}
	return value, true
}

func (f *form) fail(name, code, detail string) {
	f.wrong = append(f.wrong, fieldError{name, code, detail})
}

// check adds an error about a value that is not in the body, unless ok.
func (f *form) check(name string, ok bool, detail string) {
	if !ok {
		f.fail(name, "invalid_text", detail)
	}
}

func (f *form) refuse(status int, name, code, detail string) *problem {
	f.fail(name, code, detail)
	return invalidFields(status, f.wrong...)
}

var integer = regexp.MustCompile(`^-?[0-9]+$`)

// amount reads a positive integer in minor units. It parses the digits as they were sent, without floating point.
func (f *form) amount(name string) int64 {
	value, ok := f.take(name)
	if !ok {
		return 0
	}
	if !integer.Match(value) {
		f.fail(name, "invalid_amount", "must be an integer in minor units, such as 1050 for 10.50")
		return 0
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	switch {
	case err == nil && n >= 1 && n <= MaxAmount:
		return n
	case strings.HasPrefix(string(value), "-") || err == nil && n == 0:
		f.fail(name, "invalid_amount", "must be greater than 0")
	default:
		f.fail(name, "invalid_amount", "must be at most "+strconv.Itoa(MaxAmount))
	}
	return 0
}

// text reads a string of 1 to longest bytes on one line.
func (f *form) text(name string, longest int) string {
	value, ok := f.take(name)
	if !ok {
		return ""
	}
	var s string
	switch {
	case json.Unmarshal(value, &s) != nil:
		f.fail(name, "invalid_text", "must be a string")
	case s == "" || len(s) > longest:
		f.fail(name, "invalid_text", "must have 1 to "+strconv.Itoa(longest)+" bytes")
	case !printable(s):
		f.fail(name, "invalid_text", notPrintable)
	default:
		return s
	}
	return ""
}

const notPrintable = "must not contain control characters or broken Unicode"

// printable reports whether the database can have the text s. A text that it cannot have names nothing in it; PostgreSQL would answer a query
// with such a text with an error.
func printable(s string) bool {
	return !strings.ContainsFunc(s, unicode.IsControl) && !strings.ContainsRune(s, utf8.RuneError)
}

var currency = regexp.MustCompile(`^[A-Z]{3}$`)

func (f *form) currency(name string) string {
	value, ok := f.take(name)
	if !ok {
		return ""
	}
	var s string
	if json.Unmarshal(value, &s) != nil || !currency.MatchString(s) {
		f.fail(name, "invalid_currency", "must be three capital letters, such as EUR")
		return ""
	}
	return s
}

// err returns all errors of the body, with its unknown members.
func (f *form) err() error {
	for _, name := range sortedNames(f.members) {
		f.fail(name, "unknown_field", "is not a field of this request")
	}
	if len(f.wrong) == 0 {
		return nil
	}
	return invalidFields(http.StatusUnprocessableEntity, f.wrong...)
}
