// Package cloudevent converts messages to CloudEvents 1.0 in binary content mode: the payload is the body, and
// everything else is in headers. The package decodes events in binary mode and in structured mode (the body is a
// JSON object that contains the whole event). Use the package to write a publisher or a consumer for a broker
// that this library does not support.
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

// Binding is the way in which a protocol transports an event.
type Binding struct {
	prefix  string // the prefix of attribute names in headers
	escaped bool   // attribute values are printable ASCII, percent-encoded
	bare    bool   // an event in structured mode may have no content type
}

// These are the bindings of CloudEvents: the ways in which protocols transport an event.
var (
	HTTP  = Binding{prefix: "ce-", escaped: true}
	NATS  = Binding{prefix: "ce-", escaped: true, bare: true} // the NATS binding of CloudEvents defines only JSON, and no headers
	Kafka = Binding{prefix: "ce_"}                            // also for Watermill and Redis, which have no binding of their own
	AMQP  = Binding{prefix: "cloudEvents_"}                   // the binding of AMQP 1.0, to whose properties RabbitMQ maps the headers of AMQP 0.9.1
)

// Headers returns the headers of m: the attributes of the event, the trace context a second time under the name
// that tracing software expects, and the headers of the message itself. Names are in lower case.
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

// Escape returns value in the encoding of the HTTP binding: it percent-encodes every byte that the binding does
// not allow, which are space, quotation mark, percent sign, and all bytes that are not printable ASCII.
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
