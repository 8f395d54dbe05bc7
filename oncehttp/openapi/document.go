// Package openapi makes OpenAPI documents of routes that package oncehttp protects, so that clients can read the rules of these routes.
package openapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/upkeep"
)

// Document is an OpenAPI 3.1 document of routes that package oncehttp protects. You can merge the parts of a Document into the OpenAPI document of
// your service. Document is an [http.Handler] that serves the document as JSON. Package fmt prints a Document as JSON too; JSON is also valid YAML.
//
//	doc := openapi.New(engine, map[string]oncehttp.Config{"POST /refunds": cfg})
//	mux.Handle("GET /idempotency.json", doc)
type Document struct {
	Title   string // the title of the API; you may change it
	Version string // the version of the API; you may change it

	paths map[string]any
}

// object is a JSON object.
type object = map[string]any

// New returns the document of routes. The keys of the map routes are patterns as in [http.ServeMux]. A pattern without a method stands for every
// method in Preset.Methods that has no pattern of its own for the same path. New panics if a Config is invalid, as [oncehttp.Middleware] does, or if
// the method of a pattern is not in Preset.Methods. New also panics if two patterns differ only in their host, because the document has no hosts:
// make one document for each host.
//
// Patterns that differ only in the names of their wildcards become one path of the document, with the wildcard names of the first pattern. OpenAPI
// 3.1 supports only the standard methods of HTTP. Operations with other HTTP methods are in the member x-additional-operations of their path.
//
// Each operation has the parameters and the answers of the middleware, the problem codes of each status (x-problems), and an x-idempotency object.
// The x-idempotency object says which form a key must have, which parts of a request are compared, which answers are stored and for how long, and
// which values are not stored. If the store may lose data (it is an [upkeep.Volatile]), the x-idempotency object also says which data (may_be_lost).
func New[TX any](e *once.Engine[TX], routes map[string]oncehttp.Config) *Document {
	d := &Document{Title: "Operations that take effect once", Version: "1", paths: object{}}
	from := map[string]string{}  // patterns, by method and path
	names := map[string]string{} // the first path of each shape, by the path without the names of its parameters
	for _, pattern := range bySpecificity(routes) {
		p := describe(oncehttp.NewRoute(e, routes[pattern]))
		if v, ok := store.As[upkeep.Volatile](e.Store()); ok {
			p.volatile = v.Volatile()
		}
		method, path := splitPattern(pattern)
		methods := p.Preset.Methods
		if method != "" {
			if !slices.Contains(p.Preset.Methods, method) {
				panic(fmt.Sprintf("openapi: New: the routes contain %q, but the preset requires no key for this method.\nTry: add the method to Preset.Methods, or remove the route from the routes.", pattern))
			}
			methods = []string{method}
		}
		path, params := pathParams(path)
		shape := unnamed.ReplaceAllString(path, "{}")
		if first, ok := names[shape]; ok {
			path, params = pathParams(first)
		}
		names[shape] = path
		item, _ := d.paths[path].(object)
		if item == nil {
			item = object{}
			d.paths[path] = item
		}
		for _, m := range methods {
			if before, ok := from[m+path]; ok {
				if specific, _ := splitPattern(before); method == "" && specific != "" && hostOf(before) == hostOf(pattern) {
					// A pattern with a method replaces the pattern without one for this method.
					continue
				}
				panic(fmt.Sprintf("openapi: New: the patterns %q and %q have the same path in the document.\nTry: a separate document for each pattern.", before, pattern))
			}
			from[m+path] = pattern
			setOperation(item, m, p.operation(params))
		}
	}
	return d
}

// setOperation adds the operation of a method to a Path Item Object, which has members only for the methods of HTTP.
func setOperation(item object, method string, operation object) {
	switch method {
	case http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete, http.MethodPatch:
		item[strings.ToLower(method)] = operation
	default:
		others, _ := item["x-additional-operations"].(object)
		if others == nil {
			others = object{}
			item["x-additional-operations"] = others
		}
		others[method] = operation
	}
}

// MarshalJSON implements [json.Marshaler].
func (d *Document) MarshalJSON() ([]byte, error) {
	return json.Marshal(object{
		"openapi": "3.1.0",
		"info":    object{"title": d.Title, "version": d.Version},
		"paths":   d.paths,
		"components": object{
			"schemas": object{"Problem": problemSchema},
		},
	})
}

// String returns the document as JSON.
func (d *Document) String() string {
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err.Error() // an error is impossible, because the document has only strings and numbers
	}
	return string(text)
}

// ServeHTTP implements [http.Handler].
func (d *Document) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	text := d.String()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	_, _ = w.Write([]byte(text)) // an error is ignored: the client may have disconnected
}

// route is a route of the document, and its Config with all defaults.
type route struct {
	*oncehttp.Route
	oncehttp.Config

	volatile string // the data that the store may lose: see upkeep.Volatile
}

func describe(r *oncehttp.Route) *route { return &route{Route: r, Config: r.Config()} }

// operation returns the Operation Object of a route.
func (p *route) operation(params []any) object {
	op := object{"x-idempotency": p.rules(), "responses": p.responses()}
	params = slices.Clone(params)
	if p.Key == nil && len(p.Preset.KeyHeaders) > 0 {
		params = append(params, p.keyParameter())
	}
	op["parameters"] = append(params, timeoutParameter, firstSentParameter, attemptParameter)
	if p.Key == nil && p.FormField != "" {
		op["requestBody"] = p.formBody()
	}
	return op
}

// formBody returns the description of a request body that may be a form with the key.
func (p *route) formBody() object {
	least, most := p.keyBytes()
	key := object{
		"type": "string", "minLength": least, "maxLength": most,
		"description": "The idempotency key, where no header carries it: the same for every retry of one intent.",
	}
	if p.KeyFormat.UUID {
		key["pattern"] = "^" + formsOf(p.KeyFormat).opaque + "$"
	}
	form := object{"type": "object", "properties": object{p.FormField: key}}
	if len(p.Preset.KeyHeaders) == 0 && !p.Optional {
		form["required"] = []string{p.FormField}
	}
	return object{"content": object{
		"application/x-www-form-urlencoded": object{"schema": form},
		"multipart/form-data":               object{"schema": form},
	}}
}

func (p *route) keyParameter() object {
	text := "Names the intent: the same for every retry of it, and of no other."
	if p.Undoes != "" {
		text = "Names the request of " + p.Undoes + " that is to be undone, by its key."
	}
	forms, example := formsOf(p.KeyFormat), `"8e03978e-40d5-43e8-bc93-6894a57f9324"`
	pattern := forms.bare + "|" + forms.quoted
	switch {
	case p.Preset.OpaqueKeys:
		pattern, example = forms.opaque, strings.Trim(example, `"`) // an opaque key includes the quotation marks of the header
	case p.Preset.QuotedKeys:
		pattern = forms.quoted
		text += " In quotation marks, as a String of RFC 9651."
	default:
		text += " As it is, or in quotation marks as a String of RFC 9651: both name the same key."
	}
	if others := p.Preset.KeyHeaders[1:]; len(others) > 0 {
		text += " Also understood: " + strings.Join(others, ", ") + "."
	}
	return object{
		"name": p.Preset.KeyHeaders[0], "in": "header", "required": !p.Optional && p.FormField == "", "description": text,
		"schema":  object{"type": "string", "minLength": 1, "pattern": "^(" + pattern + ")$"},
		"example": example,
	}
}

// forms has the patterns of a key: as the whole value of a header, without quotation marks, and with them.
type forms struct{ opaque, bare, quoted string }

func formsOf(f oncehttp.KeyFormat) forms {
	if f.UUID {
		const uuid = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
		return forms{uuid, uuid, `"` + uuid + `"`}
	}
	least, most := max(1, f.MinLength), cmp.Or(f.MaxLength, once.MaxKey)
	times := func(class string, least, most int) string {
		return fmt.Sprintf("%s{%d,%d}", class, max(0, least), most)
	}
	opaque := `[!-~]`
	switch {
	case most > 1 && least > 1:
		opaque += times(`[ -~]`, least-2, most-2) + opaque
	case most > 1:
		opaque += `(` + times(`[ -~]`, 0, most-2) + opaque + `)?`
	}
	return forms{opaque, `[!#-+\--:<-~]` + times(`[ !#-+\--:<-~]`, least-1, most-1), `"` + times(`([ !#-\[\]-~]|\\["\\])`, least, most) + `"`}
}

var timeoutParameter = object{
	"name": "X-Request-Timeout", "in": "header", "required": false,
	"description": "How long the client waits for the answer, in milliseconds or as a duration such as 1.5s.",
	"schema":      object{"type": "string"},
}

var firstSentParameter = object{
	"name": "Once-First-Sent", "in": "header", "required": false,
	"description": "When the first attempt was sent, on every attempt alike: milliseconds since 1970, or as in 2026-01-01T00:00:00Z. A retry whose first attempt may be forgotten is then refused with 412 instead of executed again.",
	"schema":      object{"type": "string"},
}

var attemptParameter = object{
	"name": "Once-Attempt", "in": "header", "required": false,
	"description": "Which attempt this is: 1 for the first one, 2 for the first retry. A first attempt need not be looked up. Where the service is overloaded, a retry may still be answered from the record.",
	"schema":      object{"type": "integer", "minimum": 1},
}

// rules returns the x-idempotency object. It has facts for intermediaries and client generators, including the facts that the IETF draft of
// Idempotency-Key requires a service to publish.
func (p *route) rules() object {
	source := "headers"
	switch {
	case p.Key != nil:
		source = "custom"
	case p.FormField != "":
		source = "headers, or form field " + p.FormField
	}
	body := "bytes"
	if p.Preset.Body != nil {
		body = "as the dialect " + p.Preset.Name + " reads it"
	}
	body += ", of a multipart body without its boundary"
	stored := object{}
	for status, v := range p.Preset.Verdicts {
		name := strconv.Itoa(status)
		if status < 10 {
			name += "XX"
		}
		stored[name] = verdicts[v]
	}
	fingerprint := object{"of": []string{"method", "route", "path", "query", "content type", "body"}, "body": body}
	for name, chosen := range map[string][]string{
		"headers": p.Compare.Headers, "query": p.Compare.Query, "json": p.Compare.JSON, "json_except": p.Compare.JSONExcept, "form": p.Compare.Form,
	} {
		if len(chosen) > 0 {
			fingerprint[name] = chosen
		}
	}
	least, most := p.keyBytes()
	key := object{"source": source, "min_bytes": least, "max_bytes": most, "strict": p.Preset.QuotedKeys}
	if p.KeyFormat.UUID {
		key["format"] = "uuid"
	}
	if p.KeyFormat.Check != nil {
		key["checked"] = true // the program checks it, and the detail of its answer has the reason
	}
	rules := object{
		"dialect":            p.Preset.Name,
		"required":           !p.Optional,
		"key":                key,
		"scope":              p.Preset.Scope,
		"fingerprint":        fingerprint,
		"retention_seconds":  int64(p.Retain / time.Second),
		"wait_milliseconds":  p.Wait.Milliseconds(),
		"verdicts":           stored,
		"replayed_headers":   p.Headers,
		"max_request_bytes":  p.MaxRequest,
		"max_stored_bytes":   p.MaxStored,
		"time_in_uuid7_keys": p.KeyTime,
	}
	if len(p.Redact) > 0 {
		rules["redacted"] = p.Redact
	}
	if p.volatile != "" {
		rules["may_be_lost"] = p.volatile
	}
	return rules
}

// keyBytes returns the smallest and the largest length of a key.
func (p *route) keyBytes() (least, most int) {
	if f := p.KeyFormat; !f.UUID {
		return max(1, f.MinLength), cmp.Or(f.MaxLength, once.MaxKey)
	}
	return 36, 36
}

// verdicts has the words for verdicts in documents.
var verdicts = [...]string{oncehttp.VerdictDiscard: "forget", oncehttp.VerdictAnswerOnly: "store", oncehttp.VerdictCommit: "commit"}
