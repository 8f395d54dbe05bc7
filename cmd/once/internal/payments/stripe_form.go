package payments

import (
	"errors"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// stripeError is an error in Stripe's format.
type stripeError struct {
	Type    string `json:"type"`
	Code    string `json:"code,omitempty"`
	DocURL  string `json:"doc_url,omitempty"`
	Message string `json:"message"`
	Param   string `json:"param,omitempty"`

	status int
	early  bool // found before the operation began: the key stays unused
}

func (e *stripeError) Error() string { return e.Message }

func invalidRequest(status int, code, param, message string) *stripeError {
	return &stripeError{Type: "invalid_request_error", Code: code, Message: message, Param: param, status: status}
}

func writeStripeError(w http.ResponseWriter, e *stripeError) {
	if e.Code != "" {
		e.DocURL = "https://stripe.com/docs/error-codes/" + strings.ReplaceAll(e.Code, "_", "-")
	}
	writeJSON(w, e.status, map[string]*stripeError{"error": e})
}

// stripe converts a problem to Stripe's format.
func (p *problem) stripe() *stripeError {
	e := invalidRequest(p.Status, "", "", p.Detail)
	if len(p.Errors) > 0 {
		e.Param = strings.TrimPrefix(p.Errors[0].Pointer, "/")
	}
	switch {
	case p.Status == http.StatusNotFound:
		e.Code = "resource_missing"
	case p.Status == http.StatusUnprocessableEntity:
		e.status = http.StatusBadRequest
	case p.Status >= http.StatusInternalServerError:
		e.Type = "api_error"
	}
	return e
}

// maxStripeBody has room for the largest metadata, percent-encoded.
const maxStripeBody = 512 << 10

// stripeForm is a body of Stripe's clients. Its first error is kept.
type stripeForm struct {
	values url.Values
	wrong  error
}

// readStripeForm reads the body of r, which may have these parameters and metadata, each once.
func readStripeForm(r *http.Request, known ...string) (*stripeForm, error) {
	body, err := readBody(r, maxStripeBody)
	if err != nil {
		if p := (*problem)(nil); errors.As(err, &p) {
			e := p.stripe()
			e.early = true
			err = e
		}
		return nil, err
	}
	f := new(stripeForm)
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if len(body) > 0 && (err != nil || mediaType != "application/x-www-form-urlencoded") {
		f.refuse("", "", "The body must be application/x-www-form-urlencoded.")
		return nil, f.wrong
	}
	if f.values, err = url.ParseQuery(string(body)); err != nil {
		f.refuse("", "", "The body is not a form: "+err.Error()+".")
	}
	for _, name := range sortedNames(f.values) {
		switch v := f.values[name]; {
		case !slices.Contains(known, name) && !isMetadata(name):
			f.refuse("parameter_unknown", name, "Received unknown parameter: "+name)
		case len(v) > 1:
			f.refuse("", name, "The parameter "+name+" is there more than once.")
		case isMetadata(name): // metadata is checked separately
		case len(v[0]) > 255 || !printable(v[0]):
			f.refuse("", name, "The parameter "+name+" must have at most 255 bytes, on one line.")
		}
	}
	return f, f.wrong
}

func (f *stripeForm) refuse(code, param, message string) {
	if f.wrong == nil {
		e := invalidRequest(http.StatusBadRequest, code, param, message)
		e.early = true
		f.wrong = e
	}
}

func (f *stripeForm) text(name string) string { return f.values.Get(name) }

func (f *stripeForm) required(name string) string {
	if f.text(name) == "" {
		f.refuse("parameter_missing", name, "Missing required param: "+name+".")
	}
	return f.text(name)
}

// oneOf reads a word of a list. It is optional.
func (f *stripeForm) oneOf(name string, words ...string) string {
	text := f.text(name)
	if text != "" && !slices.Contains(words, text) {
		f.refuse("", name, "Invalid "+name+": must be one of "+strings.Join(words, ", ")+".")
	}
	return text
}

// amount returns the amount in minor units.
func (f *stripeForm) amount() int64 {
	text := f.required("amount")
	n, err := strconv.ParseInt(text, 10, 64)
	if text != "" && (err != nil || n < 1 || n > MaxAmount) {
		f.refuse("parameter_invalid_integer", "amount", "The amount must be an integer in minor units, from 1 to "+strconv.Itoa(MaxAmount)+".")
	}
	return n
}

func (f *stripeForm) currency() string {
	text := strings.ToUpper(f.required("currency"))
	if text != "" && !currency.MatchString(text) {
		f.refuse("", "currency", "The currency must be three letters, such as eur.")
	}
	return text
}
