package oncehttp

import (
	"net/http"
	"strings"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/traceparent"
	"github.com/oncelib/once/internal/base/wire"
)

// described returns an operation that has only the fields of r that observers see.
func (p *plan) described(r *http.Request) once.Operation {
	trace := wire.Trace(r.Header[wire.TraceHeader])
	op := once.Operation{Name: nameOf(r), Attempt: attemptOf(r, trace)}
	if p.RequestID != nil {
		if id := printableLine([]string{p.RequestID(r.Context())}); id != "" {
			op.Attempt.RequestID = id
		}
	}
	return op
}

// nameOf returns the kind of work of r: its method and the pattern of its route. Without a pattern, the name is the method alone. The name is a label
// of metrics, so it must have few values: a path names single things, and a client can invent paths and methods.
func nameOf(r *http.Request) string {
	if strings.IndexByte(r.Pattern, ' ') > 0 { // the pattern contains the method
		return r.Pattern
	}
	name := otherMethod
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace:
		name = r.Method
	}
	if r.Pattern != "" {
		name += " " + r.Pattern
	}
	return name
}

// otherMethod is the name that OpenTelemetry gives to an unknown method.
const otherMethod = "_OTHER"

// attemptOf returns the attempt of r with this traceparent, for logs. It leaves out texts that are too long or not printable, because a client can
// send any text.
func attemptOf(r *http.Request, trace string) once.Attempt {
	c := once.Attempt{
		Trace:         trace,
		RequestID:     printableLine(r.Header["X-Request-Id"]),
		CorrelationID: printableLine(r.Header["X-Correlation-Id"]),
		Number:        wire.Attempt(r.Header[wire.AttemptHeader]),
	}
	// The trace identifies the request as well.
	if c.CorrelationID == "" {
		c.CorrelationID = traceparent.TraceID(trace)
	}
	return c
}

// printableLine returns the value of a header, if the header has one short, printable line, and "" otherwise.
func printableLine(lines []string) string {
	if len(lines) != 1 || len(lines[0]) > 128 {
		return ""
	}
	for i := range len(lines[0]) {
		if c := lines[0][i]; c < 0x21 || c > 0x7e {
			return ""
		}
	}
	return lines[0]
}
