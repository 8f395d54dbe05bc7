package oncehttp

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/oncelib/once"
)

// Document is what clients have to know of routes that are protected by a key: an OpenAPI
// 3.1 document, whose parts can be merged into that of the service. It is an
// [http.Handler] that serves itself, and what fmt prints is its JSON, which is also YAML.
//
//	doc := oncehttp.OpenAPI(engine, map[string]oncehttp.Config{"POST /refunds": cfg})
//	mux.Handle("GET /idempotency.json", doc)
type Document struct {
	Title   string // of the API
	Version string // of the API

	paths map[string]any
}

// object is one of JSON.
type object = map[string]any

// OpenAPI returns the document of the routes, by their pattern as in [http.ServeMux]. A
// pattern without a method stands for all methods that are keyed. It panics if a Config is
// invalid, as [Middleware] does, or if the method of a pattern is not keyed.
//
// Each operation has the parameters and the answers of the middleware, the problem codes of
// each status (x-problems), and an x-idempotency object that says what makes two requests the same,
// which answers are stored, and for how long.
func OpenAPI[TX any](e *once.Engine[TX], routes map[string]Config) *Document {
	d := &Document{Title: "Operations that take effect once", Version: "1", paths: object{}}
	for _, pattern := range slices.Sorted(maps.Keys(routes)) {
		p := compile(routes[pattern], e.Retain())
		method, path := splitPattern(pattern)
		methods := p.preset.Methods
		if method != "" {
			if !p.keyed(method) {
				panic(fmt.Sprintf("oncehttp: OpenAPI: requests of %q need no key.\nTry: add the method to Preset.Methods, or leave the route out.", pattern))
			}
			methods = []string{method}
		}
		path, params := pathParams(path)
		item, _ := d.paths[path].(object)
		if item == nil {
			item = object{}
			d.paths[path] = item
		}
		for _, m := range methods {
			item[strings.ToLower(m)] = p.describe(params)
		}
	}
	return d
}

// splitPattern splits a pattern of [http.ServeMux]; the host does not matter here.
func splitPattern(pattern string) (method, path string) {
	if m, rest, ok := strings.Cut(pattern, " "); ok {
		method, pattern = m, strings.TrimLeft(rest, " \t")
	}
	if i := strings.IndexByte(pattern, '/'); i > 0 {
		pattern = pattern[i:]
	}
	return method, pattern
}

// pathParams returns a path as OpenAPI has it, and its parameters.
func pathParams(path string) (string, []any) {
	path = strings.TrimSuffix(path, "{$}")
	var params []any
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if name, is := strings.CutPrefix(s, "{"); is {
			name = strings.TrimSuffix(strings.TrimSuffix(name, "}"), "...")
			segments[i] = "{" + name + "}"
			params = append(params, object{"name": name, "in": "path", "required": true, "schema": object{"type": "string"}})
		}
	}
	return strings.Join(segments, "/"), params
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
		return err.Error() // it is made of strings and numbers
	}
	return string(text)
}

// ServeHTTP implements [http.Handler].
func (d *Document) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	text := d.String()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	_, _ = w.Write([]byte(text)) // a client that is gone needs no document
}

// describe returns the Operation Object of a route.
func (p *plan) describe(params []any) object {
	op := object{"x-idempotency": p.rules(), "responses": p.responses()}
	params = slices.Clone(params)
	if p.Key == nil && len(p.preset.KeyHeaders) > 0 {
		params = append(params, p.keyParameter())
	}
	op["parameters"] = append(params, timeoutParameter, firstSentParameter)
	return op
}

func (p *plan) keyParameter() object {
	text := "Names the intent: the same for every retry of it, and of no other."
	pattern := bareKey + "|" + quotedKey
	switch {
	case p.preset.OpaqueKeys:
		pattern = opaqueKey
	case p.Strict:
		pattern = quotedKey
		text += " In quotation marks, as a String of RFC 9651."
	default:
		text += " As it is, or in quotation marks as a String of RFC 9651: both name the same key."
	}
	if others := p.preset.KeyHeaders[1:]; len(others) > 0 {
		text += " Also understood: " + strings.Join(others, ", ") + "."
	}
	return object{
		"name": p.preset.KeyHeaders[0], "in": "header", "required": !p.Optional && p.FormField == "", "description": text,
		"schema":  object{"type": "string", "minLength": 1, "pattern": "^(" + pattern + ")$"},
		"example": `"8e03978e-40d5-43e8-bc93-6894a57f9324"`,
	}
}

// Patterns of a key of 1 to 255 bytes: taken as it is, bare, and quoted.
const (
	opaqueKey = `[!-~]([ -~]{0,253}[!-~])?`
	bareKey   = `[!#-+\--:<-~][ !#-+\--:<-~]{0,254}`
	quotedKey = `"([ !#-\[\]-~]|\\["\\]){1,255}"`
)

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

// rules are what an intermediary or a client generator would want to know, and what the
// draft of the IETF asks a resource to publish.
func (p *plan) rules() object {
	source := "headers"
	switch {
	case p.Key != nil:
		source = "custom"
	case p.FormField != "":
		source = "headers, or form field " + p.FormField
	}
	body := "bytes, of a multipart body without its boundary"
	if p.preset.Body != nil {
		body = "as the dialect " + p.preset.Name + " reads it"
	}
	stored := object{}
	for status, v := range p.preset.Verdicts {
		name := strconv.Itoa(status)
		if status < 10 {
			name += "XX"
		}
		stored[name] = v.String()
	}
	return object{
		"dialect":            p.preset.Name,
		"required":           !p.Optional,
		"key":                object{"source": source, "max_bytes": once.MaxKey, "strict": p.Strict},
		"scope":              []string{"caller", "route"},
		"fingerprint":        object{"of": []string{"method", "route", "path", "query", "content type", "body"}, "body": body},
		"retention_seconds":  p.retention(),
		"wait_milliseconds":  p.Wait.Milliseconds(),
		"verdicts":           stored,
		"replayed_headers":   slices.Sorted(maps.Keys(p.kept())),
		"max_request_bytes":  p.MaxRequest,
		"max_stored_bytes":   p.MaxStored,
		"time_in_uuid7_keys": p.KeyTime,
	}
}

func (p *plan) retention() int64 {
	n, _ := strconv.ParseInt(p.retain, 10, 64) // it was made from one
	return n
}

// kept returns the names of the headers that are stored.
func (p *plan) kept() map[string]bool {
	names := maps.Clone(p.keep)
	maps.DeleteFunc(names, func(_ string, keep bool) bool { return !keep })
	return names
}

// responses returns the Responses Object: what the middleware adds to those of a handler.
func (p *plan) responses() object {
	about := object{}
	for name, schema := range map[string]object{
		p.preset.StatusHeader:    {"type": "string", "enum": []string{stored, omitted, replayed, ignored}},
		p.preset.ReplayedHeader:  {"type": "string", "enum": []string{"true"}},
		p.preset.RetentionHeader: {"type": "integer", "minimum": 0},
		p.preset.KeyHeader:       {"type": "string"},
	} {
		if name != "" {
			about[name] = object{"schema": schema}
		}
	}
	all := object{"2XX": object{
		"description": "The answer of the operation. A retry with the same key and the same request gets it again, byte for byte.",
		"headers":     about,
	}}
	for status, codes := range p.codes() {
		all[strconv.Itoa(status)] = p.problemResponse(codes)
	}
	return all
}

// codes returns the problems of this route, by status.
func (p *plan) codes() map[int][]string {
	by := map[int][]string{}
	for code := range problems {
		if code == CodeKeyMissing && p.Optional {
			continue
		}
		status := p.problem(code).Status
		by[status] = append(by[status], code)
	}
	for _, codes := range by {
		slices.Sort(codes)
	}
	return by
}

func (p *plan) problemResponse(codes []string) object {
	kinds := make([]object, len(codes))
	for i, c := range codes {
		prob := p.problem(c)
		kinds[i] = object{"code": c, "type": prob.Type, "title": prob.Title, "retryable": prob.Retryable}
	}
	r := object{"description": "One of: " + strings.Join(codes, ", ") + ".", "x-problems": kinds}
	if p.Preset.WriteProblem != nil {
		return r // in a form of its own, which only the dialect knows
	}
	r["content"] = object{"application/problem+json": object{"schema": object{"$ref": "#/components/schemas/Problem"}}}
	if slices.ContainsFunc(codes, func(c string) bool { return c == CodeInFlight || c == CodeConflict || c == CodeStoreUnavailable }) {
		r["headers"] = object{"Retry-After": object{
			"description": "In seconds.", "schema": object{"type": "integer", "minimum": 0},
		}}
	}
	return r
}

var problemSchema = object{
	"type":        "object",
	"description": "RFC 9457, and what a program needs to know to go on.",
	"required":    []string{"status", "retryable", "safe_new_key"},
	"properties": object{
		"type":         object{"type": "string", "format": "uri"},
		"title":        object{"type": "string"},
		"status":       object{"type": "integer"},
		"detail":       object{"type": "string"},
		"code":         object{"type": "string"},
		"retryable":    object{"type": "boolean", "description": "The same request with the same key may succeed later."},
		"safe_new_key": object{"type": "boolean", "description": "Nothing was applied under this key and nothing can be: starting anew with another one does nothing twice."},
		"status_url":   object{"type": "string", "description": "Where the state of the operation can be seen."},
		"errors": object{"type": "array", "items": object{
			"type": "object", "required": []string{"pointer", "detail"},
			"properties": object{"pointer": object{"type": "string"}, "detail": object{"type": "string"}},
		}},
	},
}
