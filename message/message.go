// Package message is the event that an outbox stores, a broker carries and an inbox applies: one type, and its limits.
package message

import "time"

// Limits of a message, in bytes. All databases and brokers can carry a message within them.
const (
	MaxText            = 255      // ID, Source, Topic, Key, Type and Trace, each
	MaxHeaders         = 16 << 10 // names and values together, of a message that is added to an outbox
	MaxReceivedHeaders = 64 << 10 // the same, of a message that an inbox receives: the delivery adds some
	MaxPayload         = 1 << 20  // default of outbox.Config.MaxPayload and inbox.Config.MaxPayload
)

// HeaderKeyHash is the header with the hash of the idempotency key of the operation that has added the message, as logs have it
// (once.KeyHash). An outbox writes it, so that the logs of a consumer and of the service name the same intent.
const HeaderKeyHash = "idempotency-key-hash"

// KeyHash returns the header [HeaderKeyHash], "" if the message has none, or if it is no hash.
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

// Message is one event. Its payload and its headers are not changed after it was made.
//
// Fields are set by different parts: the caller of outbox.Box.Add describes the event; Add and the database set ID, Seq and
// CreatedAt; a relay sets Delivery; a decoder sets all that has arrived.
type Message struct {
	// ID names the event in every delivery: the CloudEvents id. An outbox takes a UUID; its default is a new one. An inbox takes any
	// text, and needs one. Consumers take a second message with the same Source and ID for a repetition, or for an error.
	ID string

	// Source is the CloudEvents source, such as "payments". Default: outbox.Config.Source; of a message that has arrived without one, "once".
	Source string

	// Topic is where the message goes or came from: a subject of NATS, a topic of Kafka, a path of HTTP. An outbox needs one.
	Topic string

	// Key orders messages. An outbox delivers the messages of one topic and key in the order in which their transactions have
	// committed. Each key costs a row that is locked until COMMIT, so that transactions of one key wait for each other: one commit
	// at a time. The row stays, so that Seq never begins again. "": the message has no order, and waits for nothing.
	Key string

	// Seq is the position or the version of the message within its source, topic and key. Of an outbox it is 1, 2, 3, ... without
	// gaps, and Add ignores the value in its argument. 0: it has none.
	Seq int64

	// Type names the event, such as "refund.succeeded". An outbox needs one.
	Type string

	// Payload is delivered byte for byte.
	Payload []byte

	// Headers are delivered with the payload, with names in lower case. "content-type" is the type of the payload. An outbox refuses
	// names that belong to the delivery: see [CheckHeaders].
	Headers map[string]string

	// Trace is the W3C traceparent that travels with the message. Default of an outbox: the trace that its Config.Trace finds in the
	// context. "": no trace.
	Trace string

	// CreatedAt is when the message was added to the outbox, by the clock of the database, or the time that its sender states. Add ignores it. Zero: not known.
	CreatedAt time.Time

	// Delivery says which delivery of the message this is, 1 for the first one. Of a message that an inbox receives, the
	// broker counts. Add ignores it. 0: not known.
	Delivery int
}

// TypeSkipped is the type of a marker: it takes the place of a message that a person has skipped in an outbox. It has the topic, key, ID and
// Seq of that message and no payload, so that a consumer which expects every Seq goes on. An inbox runs no handler for it.
const TypeSkipped = "once.skipped"
