package wire

import "github.com/oncelib/once/internal/base/traceparent"

// Trace returns the traceparent that the lines of a TraceHeader hold, "" if it is missing or malformed.
func Trace(lines []string) string {
	if len(lines) != 1 {
		return ""
	}
	return traceparent.Parse(lines[0])
}
