package openapi

import (
	"slices"
	"strconv"
	"strings"

	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/oncehttp"
)

// responses returns the Responses Object with the answers of the middleware.
func (p *route) responses() object {
	about, said := object{}, []string{wire.StatusStored, wire.StatusOmitted, wire.StatusReplayed, wire.StatusNotStored, wire.StatusIgnored}
	if p.Undoes != "" {
		said = append(said, wire.StatusUndone, wire.StatusNothing)
	}
	for name, schema := range map[string]object{
		p.Preset.StatusHeader:    {"type": "string", "enum": said},
		p.Preset.ReplayedHeader:  {"type": "string", "enum": []string{"true"}},
		p.Preset.RetentionHeader: {"type": "integer", "minimum": 0},
		p.Preset.KeyHeader:       {"type": "string"},
	} {
		if name != "" {
			about[name] = object{"schema": schema}
		}
	}
	text := "The answer of the operation. A retry with the same key and the same request gets it again, byte for byte."
	if len(p.Redact) > 0 {
		about[wire.RedactedHeader] = object{
			"description": "On a replay: JSON Pointers to what the first answer had, and is null here.",
			"schema":      object{"type": "string"},
		}
		text = "The answer of the operation. A retry with the same key and the same request gets it again, with null in the place of " + strings.Join(p.Redact, ", ") + "."
	}
	all := object{"2XX": object{
		"description": text,
		"headers":     about,
	}}
	by := map[int][]oncehttp.Problem{}
	for _, prob := range p.Problems() {
		by[prob.Status] = append(by[prob.Status], prob)
	}
	for status, problems := range by {
		all[strconv.Itoa(status)] = p.problemResponse(problems)
	}
	return all
}

func (p *route) problemResponse(problems []oncehttp.Problem) object {
	kinds, names := make([]object, len(problems)), make([]string, len(problems))
	for i, prob := range problems {
		names[i] = string(prob.Code)
		kinds[i] = object{"code": prob.Code, "type": prob.Type, "title": prob.Title, "retryable": prob.Retryable}
	}
	slices.Sort(names)
	r := object{"description": "One of: " + strings.Join(names, ", ") + ".", "x-problems": kinds}
	headers := object{}
	if name := p.Preset.RetryHeader; name != "" {
		headers[name] = object{
			"description": "Whether the same request, with the same key, may succeed later.",
			"schema":      object{"type": "string", "enum": []string{"true", "false"}},
		}
	}
	if p.Preset.WriteProblem == nil { // otherwise only the dialect knows the form of a problem
		r["content"] = object{"application/problem+json": object{"schema": object{"$ref": "#/components/schemas/Problem"}}}
		headers["Link"] = object{"description": "The page of the problem, with rel=\"help\".", "schema": object{"type": "string"}}
		if slices.ContainsFunc(problems, func(p oncehttp.Problem) bool { return p.RetryAfter > 0 }) {
			headers["Retry-After"] = object{"description": "In seconds.", "schema": object{"type": "integer", "minimum": 0}}
		}
	}
	if len(headers) > 0 {
		r["headers"] = headers
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
		"instance":     object{"type": "string", "format": "uri", "description": "Names the operation for the operators of the service, by the hash of its key."},
		"code":         object{"type": "string"},
		"retryable":    object{"type": "boolean", "description": "The same request with the same key may succeed later."},
		"safe_new_key": object{"type": "boolean", "description": "Nothing was applied under this key and nothing can be: a new attempt under another key repeats no effect."},
		"status_url":   object{"type": "string", "description": "Where the state of the operation can be seen."},
		"errors": object{"type": "array", "items": object{
			"type": "object", "required": []string{"pointer", "detail"},
			"properties": object{"pointer": object{"type": "string"}, "detail": object{"type": "string"}},
		}},
	},
}
