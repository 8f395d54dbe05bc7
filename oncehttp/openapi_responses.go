package oncehttp

import (
	"slices"
	"strconv"
	"strings"

	"github.com/oncelib/once/internal/wire"
)

// responses returns the Responses Object: what the middleware adds to those of a handler.
func (p *plan) responses() object {
	about := object{}
	for name, schema := range map[string]object{
		p.preset.StatusHeader:    {"type": "string", "enum": []string{wire.StatusStored, wire.StatusOmitted, wire.StatusReplayed, wire.StatusNotStored, wire.StatusIgnored}},
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
	if p.Gate != nil {
		for code, prob := range gateProblems {
			by[prob.Status] = append(by[prob.Status], code)
		}
	}
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
	kinds, names := make([]object, len(codes)), make([]string, len(codes))
	for i, c := range codes {
		prob, gates := gateProblems[c]
		if prob.Code, prob.Type = c, typeOf(c); !gates {
			prob = p.problem(c)
		}
		names[i] = prob.Code
		kinds[i] = object{"code": prob.Code, "type": prob.Type, "title": prob.Title, "retryable": prob.Retryable}
	}
	r := object{"description": "One of: " + strings.Join(slices.Sorted(slices.Values(names)), ", ") + ".", "x-problems": kinds}
	headers := object{}
	if name := p.preset.RetryHeader; name != "" {
		headers[name] = object{
			"description": "Whether the same request, with the same key, may succeed later.",
			"schema":      object{"type": "string", "enum": []string{"true", "false"}},
		}
	}
	if p.Preset.WriteProblem == nil { // else in a form of its own, which only the dialect knows
		r["content"] = object{"application/problem+json": object{"schema": object{"$ref": "#/components/schemas/Problem"}}}
		if slices.ContainsFunc(codes, saysWhenToRetry) {
			headers["Retry-After"] = object{"description": "In seconds.", "schema": object{"type": "integer", "minimum": 0}}
		}
	}
	if len(headers) > 0 {
		r["headers"] = headers
	}
	return r
}

// saysWhenToRetry reports whether a problem says when to come back.
func saysWhenToRetry(code string) bool {
	_, gates := gateProblems[code]
	return gates || code == CodeInFlight || code == CodeConflict || code == CodeStoreUnavailable || code == CodeTimeout
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
