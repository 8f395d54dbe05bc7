package oncehttp

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/oncelib/once"
)

// callerOf returns what r says about itself, for logs. What cannot be a name there
// is left out.
func callerOf(r *http.Request) once.Caller {
	c := once.Caller{RequestID: name(r.Header["X-Request-Id"]), CorrelationID: name(r.Header["X-Correlation-Id"])}
	if lines := r.Header["Traceparent"]; c.CorrelationID == "" && lines != nil {
		c.CorrelationID = traceID(name(lines))
	}
	if s := name(r.Header["Once-Attempt"]); s != "" {
		if n, err := strconv.ParseUint(s, 10, 31); err == nil {
			c.Attempt = int(n)
		}
	}
	return c
}

func name(lines []string) string {
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
		if c := parts[1][i]; !digit(c) && (c < 'a' || c > 'f') {
			return ""
		}
	}
	return parts[1]
}
