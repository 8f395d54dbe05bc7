package oncehttp

import (
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/fingerprint"
	"github.com/oncelib/once/internal/base/jsonpointer"
	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/oncehttp/canonical"
)

// Compare chooses the parts of a request that are compared between two requests with the same key. Method, route, path and content type are always
// compared. If a field of Compare is empty, the part of the request that the field describes is compared as if there were no Compare.
//
//	oncehttp.Config{
//		Principal: account,
//		Compare:   oncehttp.Compare{JSON: []string{"/amount", "/currency"}, Headers: []string{"X-Api-Version"}},
//	}
//
// Parts that are not compared may differ between two attempts, and the later attempt still gets the answer to the first attempt. Therefore a Compare
// must name every part of the request on which the effect of the request depends.
//
// If a body does not fit its Compare, the whole body is compared, as without a Compare. A body does not fit its Compare if the body has another
// content type, cannot be parsed, or has none of the named values. A JSON body also does not fit its Compare if a member on the path to a named value
// exists twice.
//
// After you change the Compare of a route, answers that were stored before the change are replayed without any comparison until their retention ends.
// The fingerprint (a hash of the compared parts) of an answer that was stored before the change was made with the old Compare. A comparison with a
// fingerprint of the new Compare would refuse every retry whose first attempt came before the change.
type Compare struct {
	// Headers are the names of the compared request headers, in addition to Content-Type. All lines of a header are compared, in their order.
	// Default: only Content-Type.
	Headers []string

	// Query are the names of the compared query parameters. Parameters may come in any order, but the values of one parameter must come in the same
	// order. Default: the whole query, as it was sent.
	Query []string

	// JSON lists JSON Pointers (RFC 6901), such as "/amount", to the compared values of a body with a JSON content type. Differences in white space, in
	// the order of members and in escapes are ignored. Numbers are compared as they are written (1.0 is not 1), and a missing value differs from null.
	// Default: the whole body.
	JSON []string

	// JSONExcept lists JSON Pointers, such as "/sent_at", to values that are not compared. The rest of the body is compared, and also whether each value
	// that JSONExcept lists exists in the body. Set at most one of the fields JSON and JSONExcept.
	JSONExcept []string

	// Form are the names of the compared fields of an urlencoded form. Fields may come in any order, but the values of one field must come in the
	// same order. A multipart form is always compared as a whole. Default: the whole body.
	Form []string
}

// isZero reports whether the whole request is compared.
func (c *Compare) isZero() bool {
	return len(c.Headers)+len(c.Query)+len(c.JSON)+len(c.JSONExcept)+len(c.Form) == 0
}

// readsBody reports whether the comparison needs the body in memory.
func (c *Compare) readsBody() bool { return len(c.JSON)+len(c.JSONExcept)+len(c.Form) > 0 }

// invalid returns the reason if c is not valid, or "".
func (c *Compare) invalid(p *Preset) string {
	if len(c.JSON) > 0 && len(c.JSONExcept) > 0 {
		return "Compare.JSON and Compare.JSONExcept are both set.\nTry: only Compare.JSON, which lists all compared fields."
	}
	for _, name := range canonicalNames(c.Headers) {
		switch {
		case name == "":
			return "Compare.Headers has an empty name."
		case slices.Contains(canonicalNames(p.KeyHeaders), name), slices.Contains(perAttempt, name):
			return fmt.Sprintf("Compare.Headers contains %s, which is the key or differs between two attempts, so every retry would be refused.\nTry: leave this header out.", name)
		}
	}
	if slices.Contains(slices.Concat(c.Query, c.Form), "") {
		return "Compare.Query or Compare.Form has an empty name."
	}
	return invalidPointers("Compare.JSON or Compare.JSONExcept", slices.Concat(c.JSON, c.JSONExcept))
}

// perAttempt has the headers whose values differ between two attempts.
var perAttempt = []string{wire.AttemptHeader, wire.TimeoutHeader, wire.TraceHeader, "X-Request-Id", "Authorization", "Cookie", "Date", "Content-Length"}

func invalidPointers(field string, pointers []string) string {
	for _, s := range pointers {
		if p, err := jsonpointer.Parse(s); err != nil {
			return fmt.Sprintf("%s has %q, which is not a JSON Pointer: %v.\nTry: a slash before each name, such as \"/card/number\".", field, s, err)
		} else if len(p) == 0 {
			return field + " contains \"\", which means the whole body.\nTry: leave this pointer out."
		}
	}
	return ""
}

// rule is a checked Compare, with parsed names and pointers.
type rule struct {
	headers, query, form []string
	json, except         []jsonpointer.Pointer
	id                   once.Fingerprint
}

func (c *Compare) compile() *rule {
	// Without a rule, the fingerprint is the one that is stored without Compare.
	if c.isZero() {
		return nil
	}
	sorted := func(names []string) []string { return slices.Compact(slices.Sorted(slices.Values(names))) }
	r := &rule{headers: sorted(canonicalNames(c.Headers)), query: sorted(c.Query), form: sorted(c.Form)}
	id := lists{}
	id.add(r.headers...)
	id.add(r.query...)
	id.add(r.form...)
	for _, l := range []struct {
		texts []string
		to    *[]jsonpointer.Pointer
	}{{c.JSON, &r.json}, {c.JSONExcept, &r.except}} {
		texts := sorted(l.texts)
		id.add(texts...)
		*l.to = pointersOf(texts)
	}
	r.id = id.fingerprint()
	return r
}

func pointersOf(texts []string) (pointers []jsonpointer.Pointer) {
	for _, s := range texts {
		p, _ := jsonpointer.Parse(s) // an error is impossible, because invalid has parsed the same text
		pointers = append(pointers, p)
	}
	return pointers
}

// lists has the lists of texts from which a fingerprint is made. The boundaries between texts are a part of it, so that different lists do not get
// the same fingerprint.
type lists [][]byte

func (l *lists) add(texts ...string) {
	*l = append(*l, []byte(strconv.Itoa(len(texts))))
	for _, s := range texts {
		*l = append(*l, []byte(s))
	}
}

func (l *lists) fingerprint() once.Fingerprint { return once.FingerprintOf(*l...) }

// fingerprint returns the hash of the parts of a request that the rule chooses.
func (ru *rule) fingerprint(x *Exchange, route string) (once.Fingerprint, error) {
	r := x.r
	contentType := r.Header.Get("Content-Type")
	var l lists
	l.add(r.Method, route, pathOf(r))
	for _, name := range ru.headers {
		values := r.Header[name]
		if name == "Host" { // net/http has moved it out of the header
			values = []string{r.Host}
		}
		l.add(values...)
	}
	l.add("query")
	if values, err := url.ParseQuery(r.URL.RawQuery); len(ru.query) > 0 && err == nil {
		for _, name := range ru.query {
			l.add(values[name]...)
		}
	} else {
		// A query that cannot be parsed is compared as a whole.
		l.add("whole", r.URL.RawQuery)
	}
	if chosen := ru.ofBody(x, contentType); chosen != nil {
		l.add("chosen", contentType)
		l = append(l, chosen...)
		return ru.mark(l.fingerprint()), nil
	}
	l.add("whole")
	f, err := x.wholeBody(l, contentType)
	return ru.mark(f), err
}

func (ru *rule) mark(f once.Fingerprint) once.Fingerprint { return fingerprint.Ruled(f, ru.id) }

// wholeBody returns the hash of parts, the content type and the whole body.
func (x *Exchange) wholeBody(parts lists, contentType string) (once.Fingerprint, error) {
	// A body in a file is hashed piece by piece, so that it needs no memory.
	if x.body.file != nil && len(x.r.PostForm) == 0 {
		texts := make([]string, len(parts))
		for i, p := range parts {
			texts[i] = string(p)
		}
		return fingerprintFile(x.body.file, x.body.size, contentType, texts...)
	}
	contentType, body, pieces := x.comparedBody(contentType)
	parts = append(parts, []byte(contentType))
	if pieces == nil {
		pieces = [][]byte{body}
	}
	parts = append(parts, pieces...)
	return parts.fingerprint(), nil
}

// ofBody returns the compared parts of the body, or nil if the whole body must be compared.
func (ru *rule) ofBody(x *Exchange, contentType string) lists {
	switch {
	case len(ru.form) > 0 && isForm(contentType):
		return ru.ofForm(x.r, x.body.memory)
	case len(ru.json) > 0 && isJSON(contentType):
		return ru.ofJSON(x.body.memory)
	case len(ru.except) > 0 && isJSON(contentType):
		spans, oneReading, ok := jsonpointer.Find(x.body.memory, ru.except)
		if !ok || !oneReading {
			return nil
		}
		// A null in place of a value keeps the fact that the value exists.
		rest := jsonpointer.Null(x.body.memory, spans)
		if read := x.plan.preset.Body; read != nil {
			rest = read(contentType, rest)
		}
		return lists{rest}
	}
	return nil
}

func (ru *rule) ofForm(r *http.Request, body []byte) (l lists) {
	values := r.PostForm // outer middleware has parsed the form, so the body cannot be read
	if len(values) == 0 {
		var err error
		if values, err = url.ParseQuery(string(body)); err != nil {
			return nil
		}
	}
	found := false
	for _, name := range ru.form {
		found = found || len(values[name]) > 0
		l.add(values[name]...)
	}
	// A body without any chosen value probably has another form, so it is compared as a whole.
	if !found {
		return nil
	}
	return l
}

func (ru *rule) ofJSON(body []byte) (l lists) {
	spans, oneReading, ok := jsonpointer.Find(body, ru.json)
	if !ok || !oneReading {
		return nil
	}
	found := false
	for _, at := range spans {
		var values []string // at most one value
		for _, s := range at {
			values = append(values, string(canonical.JSON("application/json", body[s.From:s.To])))
			found = true
		}
		l.add(values...)
	}
	if !found {
		return nil
	}
	return l
}

// isForm reports whether a content type is an urlencoded form.
func isForm(contentType string) bool {
	mediaType, _, err := mime.ParseMediaType(contentType)
	return err == nil && mediaType == "application/x-www-form-urlencoded"
}

// comparedWords returns a text that lists the compared parts, for a client whose request differs.
func (p *plan) comparedWords() string {
	list := func(names []string) string { return strings.Join(names, ", ") }
	words := []string{"method", "route", "path"}
	if c := &p.Compare; len(c.Query) > 0 {
		words = append(words, "the query parameters "+list(c.Query))
	} else {
		words = append(words, "query")
	}
	if len(p.Compare.Headers) > 0 {
		words = append(words, "the headers "+list(p.Compare.Headers))
	}
	body := "body"
	if p.preset.Body != nil {
		body += " (as the dialect " + p.preset.Name + " reads it)"
	}
	switch c := &p.Compare; {
	case len(c.JSONExcept) > 0:
		body += " (of JSON all but " + list(c.JSONExcept) + ")"
	case len(c.JSON) > 0 && len(c.Form) > 0:
		body += " (of JSON only " + list(c.JSON) + ", of a form only " + list(c.Form) + ")"
	case len(c.JSON) > 0:
		body += " (of JSON only " + list(c.JSON) + ")"
	case len(c.Form) > 0:
		body += " (of a form only " + list(c.Form) + ")"
	}
	text := list(words) + ", content type and " + body + " are compared, and no other header."
	return strings.ToUpper(text[:1]) + text[1:]
}
