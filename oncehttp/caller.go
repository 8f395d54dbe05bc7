package oncehttp

import (
	"net/http"
	"strings"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/wire"
)

// callerOf returns what r says about itself, for logs. What cannot be a name there
// is left out.
func callerOf(r *http.Request) once.Caller {
	c := once.Caller{
		RequestID:     printableLine(r.Header["X-Request-Id"]),
		CorrelationID: printableLine(r.Header["X-Correlation-Id"]),
		Attempt:       wire.Attempt(r.Header[wire.AttemptHeader]),
	}
	if lines := r.Header["Traceparent"]; c.CorrelationID == "" && lines != nil {
		c.CorrelationID = traceID(printableLine(lines))
	}
	return c
}

// printableLine returns the one line of a header if it is short and printable, otherwise "".
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

// traceID returns the trace id of a traceparent (W3C Trace Context), "" if it has none.
func traceID(parent string) string {
	parts := strings.SplitN(parent, "-", 4)
	if len(parts) < 4 || len(parts[0]) != 2 || len(parts[1]) != 32 {
		return ""
	}
	for i := range len(parts[1]) {
		if c := parts[1][i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return ""
		}
	}
	return parts[1]
}
