// Package message defines the type [Message] and its limits. A Message is an event that an outbox stores, a
// broker transports and an inbox applies.
package message

import "time"

// These constants are the limits of a message, in bytes. All databases and brokers can transport a message
// within these limits.
const (
	MaxText            = 255      // the limit of each of the fields ID, Source, Topic, Key, Type and Trace
	MaxHeaders         = 16 << 10 // limit for the names and values of all headers together, in a message that is added to an outbox
	MaxReceivedHeaders = 64 << 10 // limit for the names and values of all headers together, in a message that an inbox receives; higher than MaxHeaders, because the delivery adds headers
	MaxPayload         = 1 << 20  // the default of outbox.Config.MaxPayload and inbox.Config.MaxPayload
)

// HeaderKeyHash is the header with the hash of the idempotency key of the operation that has added the message.
// Logs contain the same hash (once.KeyHash), so that you can find one operation in the logs of the service and in
// the logs of a consumer. An outbox adds the header HeaderKeyHash to each message of an operation with a key.
const HeaderKeyHash = "idempotency-key-hash"

// KeyHash returns the value of the header [HeaderKeyHash], or "" if the message does not have this header, or if
// the value of the header is not a hash.
func (m *Message) KeyHash() string {
	hash := m.Headers[HeaderKeyHash]
	for i := range len(hash) {
		if b := hash[i]; (b < '0' || b > '9') && (b < 'a' || b > 'f') {
			return ""
		}
	}
	if len(hash) != hashLen {
		return ""
	}
	return hash
}

const hashLen = 16

// Message is one event. The payload and the headers of a Message must not be changed after the
// Message was made.
//
// Different packages set the fields: the caller of outbox.Box.Add describes the event; Add and the database
// set ID, Seq and CreatedAt; a relay sets Delivery; a decoder sets all fields that a received message has.
type Message struct {
	// ID identifies the event in every delivery; ID is the CloudEvents id. An outbox accepts only UUIDs, and
	// makes one by default. An inbox accepts any text, but not "". Consumers count a second message with the
	// same Source and ID as a duplicate, or as an error.
	ID string

	// Source is the CloudEvents source, such as "payments". Default in an outbox: outbox.Config.Source. Default
	// in an inbox: "once".
	Source string

	// Topic is where the message is sent to, or where it was received: a subject of NATS, a topic of Kafka, a
	// path of HTTP. An outbox requires a Topic.
	Topic string

	// Messages with the same Topic and Key have an order. An outbox delivers the messages of one topic and key in
	// the order in which their transactions have committed. For each key the outbox has a row, which is locked
	// until COMMIT. So transactions with the same key wait for each other, and commit one at a time. The row of a
	// key is never deleted, so that the Seq of the key never begins again. If Key is "", the message has no
	// order, and waits for no other message.
	Key string

	// Seq is the position or the version of the message within its source, topic and key. An outbox numbers the
	// messages of a topic and key 1, 2, 3, ... without gaps, and the method Add of the outbox ignores the Seq of
	// its argument. If Seq is 0, the message has no number.
	Seq int64

	// Type names the kind of event, such as "refund.succeeded". An outbox requires a Type.
	Type string

	// Payload is the content of the message. Payload is delivered unchanged.
	Payload []byte

	// Headers are delivered with the payload, with names in lower case. The header "content-type" is the type of
	// the payload. An outbox refuses the names of headers that HTTP or the publisher itself writes: see
	// [CheckHeaders].
	Headers map[string]string

	// Trace is the W3C traceparent that is delivered with the message. Default in an outbox: the trace that
	// outbox.Config.Trace finds in the context. "" means no trace.
	Trace string

	// CreatedAt is when the message was added to the outbox, by the clock of the database; in a message that was
	// not sent by an outbox, CreatedAt is the time that the sender states. The method Add of the outbox ignores
	// CreatedAt. If CreatedAt is zero, the time is not known.
	CreatedAt time.Time

	// Delivery is the number of this delivery of the message, 1 for the first delivery. In a message that an
	// inbox receives, Delivery is the count of the broker. The method Add of the outbox ignores Delivery. If
	// Delivery is 0, the number is not known.
	Delivery int
}

// TypeSkipped is the type of a marker, which replaces a message that a person has skipped in an outbox. The
// marker has the topic, key, ID and Seq of the skipped message and no payload, so that a consumer which expects
// every Seq can continue. An inbox runs no handler for a marker.
const TypeSkipped = "once.skipped"
