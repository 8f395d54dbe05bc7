// Package traceparent reads the header of W3C Trace Context that names the trace of a call.
package traceparent

import "strings"

// Max is the largest size of the trace of an operation or a message, in bytes.
const Max = 255

// These are the positions of the parts of a traceparent: version, trace id, parent id, flags.
const (
	traceIDStart  = 3
	traceIDEnd    = 35
	parentIDStart = 36
	parentIDEnd   = 52
	traceLength   = 55
)

// Parse returns the traceparent in value, or "" if it is malformed. A traceparent of a later version is returned in the form
// of version 00, as the standard requires from a reader that does not know the later version.
func Parse(value string) string {
	if len(value) < traceLength {
		return ""
	}
	trace, rest := value[:traceLength], value[traceLength:]
	for i := range len(trace) {
		switch c := trace[i]; i {
		case traceIDStart - 1, traceIDEnd, parentIDEnd:
			if c != '-' {
				return ""
			}
		default:
			if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
				return ""
			}
		}
	}
	version := trace[:traceIDStart-1]
	switch {
	case allZero(trace[traceIDStart:traceIDEnd]), allZero(trace[parentIDStart:parentIDEnd]), version == "ff":
		return ""
	case version == "00" && rest == "":
		return trace
	case version == "00", rest != "" && rest[0] != '-':
		return ""
	}
	sampled := "00"
	if strings.IndexByte("13579bdf", trace[traceLength-1]) >= 0 { // the only flag that every version has
		sampled = "01"
	}
	return "00" + trace[traceIDStart-1:parentIDEnd+1] + sampled
}

// TraceID returns the trace id of a traceparent, or "" if the traceparent is malformed.
func TraceID(value string) string {
	trace := Parse(value)
	if trace == "" {
		return ""
	}
	return trace[traceIDStart:traceIDEnd]
}

func allZero(id string) bool { return strings.Trim(id, "0") == "" }
