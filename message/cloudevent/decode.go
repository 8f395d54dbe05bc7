package cloudevent

import (
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/oncelib/once/internal/base/printable"
	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/message"
)

// Names of headers that hold the ID of a message which is not a CloudEvent.
const (
	keyHeader = "idempotency-key"
	natsID    = "nats-msg-id" // NATS drops messages with an ID that it has seen
)

// prefix comes before the names of attributes in Message.Headers that have no field of their own, whatever prefix the transport
// uses.
const prefix = "ce-"

// Decode is the inverse of [Headers]. Decode returns the message of received headers and a received body. Decode
// accepts a CloudEvent 1.0 in binary mode, a CloudEvent in structured mode in JSON, and any message with a header
// Idempotency-Key or Nats-Msg-Id, whose value becomes the ID. If a message over NATS has no content type, and its
// body is a JSON object with a specversion, Decode reads the body as a CloudEvent in structured mode.
//
// Attributes for which Message has no field are in Message.Headers, with "ce-" before the name. An attribute
// subject that differs from the key is in Message.Headers, too. Decode drops headers that HTTP or a publisher has
// added for the delivery, and headers that are not text. The caller must set Topic and Delivery.
//
// If Decode returns an error, the returned message contains the fields that are valid, and the whole body as its
// Payload.
func Decode(headers iter.Seq2[string, string], b Binding, body []byte) (message.Message, error) {
	d := decoder{label: b.prefix}
	d.m.Payload = body
	d.m.Headers = map[string]string{}
	d.readHeaders(headers, b)
	switch mode, format := contentMode(d.m.Headers[contentType]); {
	case mode == structured && format == "json", b.bare && d.isBare(body):
		d.label, d.attributes, d.err = "", map[string]string{}, nil // headers may repeat attributes, and then the body counts
		d.readStructured(body)
		d.event()
	case mode != binary:
		d.failf("the content type %q is not supported. Try: one event in application/cloudevents+json, or in binary mode", d.m.Headers[contentType])
	case d.has("id") || d.has("specversion"):
		d.event()
	default:
		d.plain()
	}
	d.checkHeaders()
	if d.err != nil {
		d.m.Payload = body
		return d.m, fmt.Errorf("cloudevent: %w", d.err)
	}
	return d.m, nil
}

type decoder struct {
	m             message.Message
	attributes    map[string]string // attributes that were not moved to m yet, by name
	keys, natsIDs []string
	label         string // comes before the name of an attribute in errors
	err           error  // the first error
}

func (d *decoder) failf(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf(format, args...)
	}
}

func (d *decoder) has(attribute string) bool {
	_, has := d.attributes[attribute]
	return has
}

// take removes an attribute and returns its value, or "" if the event does not have it.
func (d *decoder) take(attribute string) string {
	value := d.attributes[attribute]
	delete(d.attributes, attribute)
	return value
}

func (d *decoder) readHeaders(headers iter.Seq2[string, string], b Binding) {
	d.attributes = map[string]string{}
	prefix := strings.ToLower(b.prefix)
	for name, value := range headers {
		name = strings.ToLower(name)
		attribute, isAttribute := strings.CutPrefix(name, prefix)
		switch {
		case isAttribute:
			d.readAttribute(attribute, value, b.escaped)
		case name == traceParent:
			d.setTrace(value)
		case name == keyHeader:
			d.keys = append(d.keys, value)
		case name == natsID:
			d.natsIDs = append(d.natsIDs, value)
		case name == "", message.IsOfDelivery(name), !isText(name), !isText(value):
		case len(d.m.Headers[name]) > message.MaxReceivedHeaders: // the message will be refused, and appending many more lines would take long
		case d.m.Headers[name] != "": // HTTP joins lines of one name in the same way
			d.m.Headers[name] += ", " + value
		default:
			d.m.Headers[name] = value
		}
	}
}

func (d *decoder) readAttribute(name, value string, escaped bool) {
	if escaped {
		value = Unescape(value)
	}
	if d.has(name) {
		d.failf("the request has the header %s%s twice. Try: remove one of the two headers", d.label, printable.Short(name))
		value = ""
	}
	d.attributes[name] = value
}

// event moves the attributes to m.
func (d *decoder) event() {
	if version := d.take("specversion"); version != "1.0" {
		d.failf("the attribute %sspecversion is %q. Try: \"1.0\", a CloudEvent of version 1.0", d.label, printable.Short(version))
	}
	d.m.ID = d.required("id", `an ID that is the same in every delivery, such as a UUID`)
	d.m.Source = d.required("source", `the name of the sender, such as "payments"`)
	d.m.Type = d.required("type", `what has happened, such as "refund.succeeded"`)
	d.setTime(d.take("time"))
	d.setSeq(d.take("sequence"))
	d.setKey(d.take("partitionkey"))
	d.setTrace(d.take("traceparent")) // the event's trace counts: the header may have the trace of a hop
	if media := d.text("datacontenttype", d.take("datacontenttype")); media != "" && (d.label == "" || d.m.Headers[contentType] == "") {
		d.m.Headers[contentType] = media
	}
	for name, value := range d.attributes {
		if isAttributeName(name) {
			d.m.Headers[prefix+name] = d.text(name, value)
		}
	}
}

// text returns a value that may be long. A value that is not text is an error: without it, the event would not be the one that was sent.
func (d *decoder) text(name, value string) string {
	if !isText(value) {
		d.failf("the attribute %s%s %q contains control characters or is not UTF-8. Try: printable text, or base64", d.label, name, printable.Short(value))
		return ""
	}
	return value
}

func (d *decoder) required(name, try string) string {
	value := d.take(name)
	if value == "" {
		d.failf("the attribute %s%s is missing. Try: %s", d.label, name, try)
		return ""
	}
	return d.checked(name, value)
}

// checked returns value if it can be stored. Otherwise it notes an error and returns "".
func (d *decoder) checked(name, value string) string {
	if err := message.CheckText("attribute "+d.label+name, value, message.MaxText); err != nil {
		d.failf("%w", err)
		return ""
	}
	return value
}

func (d *decoder) setTime(value string) {
	if value == "" {
		return
	}
	at, err := time.Parse(time.RFC3339Nano, strings.ToUpper(value))
	if at = at.UTC(); err != nil || at.Year() < 1 || at.Year() > 9999 {
		d.failf("the attribute %stime %q is not a time of RFC 3339. Try: such as 2026-01-01T00:00:00Z", d.label, printable.Short(value))
		return
	}
	d.m.CreatedAt = at
}

// setSeq accepts only numbers. A sequence that was ignored would be a lost order.
func (d *decoder) setSeq(value string) {
	if value == "" {
		return
	}
	seq, err := strconv.ParseUint(value, 10, 63)
	if err != nil || seq == 0 {
		d.failf("the attribute %ssequence %q is not a number from 1 to %d. Try: the number of the message within its key, or no sequence", d.label, printable.Short(value), uint64(1<<63-1))
		return
	}
	d.m.Seq = int64(seq)
}

// setKey sets the key to the partition key, or else to the subject. A long subject, such as the name of a file, does not become the
// key, unless the event has a sequence.
func (d *decoder) setKey(key string) {
	subject := d.attributes["subject"]
	if key == "" && (len(subject) <= message.MaxText || d.m.Seq > 0) {
		key = subject
	}
	if d.m.Key = d.checked("partitionkey or subject", key); d.m.Key == subject {
		delete(d.attributes, "subject")
	}
}

// setTrace sets a trace that can be stored. A bad trace is ignored, because the message is still valid.
func (d *decoder) setTrace(trace string) {
	if trace != "" && len(trace) <= message.MaxText && isText(trace) {
		d.m.Trace = trace
	}
}

// plain sets the ID of a message that is not a CloudEvent.
func (d *decoder) plain() {
	switch {
	case len(d.keys) > 1 || len(d.natsIDs) > 1:
		d.failf("the request has the header with the ID of the message twice. Try: one header Idempotency-Key")
	case len(d.keys) == 1:
		key, err := wire.ParseKey(d.keys[0], false)
		if err != nil {
			d.failf("%w Try: a UUID", err)
			return
		}
		d.m.ID = d.checked(keyHeader, key)
	case len(d.natsIDs) == 1:
		if d.m.ID = d.checked(natsID, d.natsIDs[0]); d.m.ID == "" {
			d.failf("the header Nats-Msg-Id is empty. Try: an ID that is the same in every delivery")
		}
	default:
		d.failf("the message has no ID. Try: a CloudEvent (headers %sspecversion, %[1]sid, %[1]ssource, %[1]stype), or a header Idempotency-Key", d.label)
	}
}

func (d *decoder) checkHeaders() {
	if err := message.CheckHeadersSize(d.m.Headers, message.MaxReceivedHeaders); err != nil {
		d.m.Headers = nil
		d.failf("%w", err)
	}
}

// Unescape is the inverse of [Escape]. Unescape also accepts a value in quotation marks, as the HTTP binding
// requires. A percent sign that is not followed by two hexadecimal digits is kept, because many senders do not
// escape it.
func Unescape(value string) string {
	if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
		var plain strings.Builder
		quoted := value[1 : len(value)-1]
		for i := 0; i < len(quoted); i++ {
			if quoted[i] == '\\' && i+1 < len(quoted) {
				i++
			}
			plain.WriteByte(quoted[i])
		}
		value = plain.String()
	}
	if !strings.Contains(value, "%") {
		return value
	}
	plain := make([]byte, 0, len(value))
	for i := 0; i < len(value); i++ {
		if value[i] == '%' && i+2 < len(value) {
			if c, err := strconv.ParseUint(value[i+1:i+3], 16, 8); err == nil {
				plain = append(plain, byte(c))
				i += 2
				continue
			}
		}
		plain = append(plain, value[i])
	}
	return string(plain)
}

// isText reports whether s can be the value of a header.
func isText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r != '\t' && unicode.IsControl(r) })
}

// isAttributeName reports whether s is a name that CloudEvents allows.
func isAttributeName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
}
