// Package cloudevent maps messages to CloudEvents 1.0 in binary content mode: the payload is the body, and all else is in
// headers. It reads such events, and those in structured mode. It is for publishers and consumers of a broker that has no package here.
package cloudevent

import (
	"iter"
	"strings"

	"github.com/oncelib/once/message"
)

// Names of headers that have no prefix.
const (
	contentType = "content-type"
	traceParent = "traceparent"
)

// Binding is how a transport carries an event.
type Binding struct {
	prefix  string // before the names of attributes in headers
	escaped bool   // values of attributes are printable ASCII, in percent encoding
	bare    bool   // an event in structured mode may have no content type
}

// The bindings of CloudEvents.
var (
	HTTP  = Binding{prefix: "ce-", escaped: true}
	NATS  = Binding{prefix: "ce-", escaped: true, bare: true} // its binding knows JSON and no headers
	Kafka = Binding{prefix: "ce_"}                            // and Watermill and Redis, which have no binding
	AMQP  = Binding{prefix: "cloudEvents_"}                   // of AMQP 1.0, to which RabbitMQ maps headers of 0.9.1
)

// Headers returns the headers of m: the attributes of the event, the trace
// context once more under the name that tracing looks for, and the headers of the message itself. Names are in lower case.
func Headers(m *message.Message, b Binding) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for name, value := range Attributes(m) {
			if name == "datacontenttype" { // it is the header content-type in every binding
				continue
			}
			if b.escaped {
				value = Escape(value)
			}
			if !yield(b.prefix+name, value) {
				return
			}
		}
		if m.Trace != "" && !yield(traceParent, m.Trace) {
			return
		}
		for name, value := range m.Headers {
			if !yield(strings.ToLower(name), value) {
				return
			}
		}
	}
}

// Escape returns value with every byte in percent encoding that the HTTP binding does not allow: space,
// quotation mark, percent sign, and all that is not printable ASCII.
func Escape(value string) string {
	plain := 0
	for plain < len(value) && allowed(value[plain]) {
		plain++
	}
	if plain == len(value) {
		return value
	}
	const digits = "0123456789ABCDEF"
	escaped := []byte(value[:plain])
	for _, c := range []byte(value[plain:]) {
		if allowed(c) {
			escaped = append(escaped, c)
		} else {
			escaped = append(escaped, '%', digits[c>>4], digits[c&15])
		}
	}
	return string(escaped)
}

func allowed(c byte) bool { return c > ' ' && c <= '~' && c != '"' && c != '%' }
