package outbox

import "time"

// Longest texts of a message, in bytes.
const (
	MaxTopic   = 255
	MaxKey     = 255
	MaxType    = 255
	MaxSource  = 255
	MaxHeaders = 16 << 10 // all names and values together
	MaxPayload = 1 << 20  // default of Config.MaxPayload
)

// Message is one event.
type Message struct {
	// Topic is where the message goes: a subject of NATS, a topic of Kafka, a path of HTTP. Required.
	Topic string

	// Key orders messages: those of one topic and key are delivered in the order in which their
	// transactions have committed. They cost a row that is locked until COMMIT, so that transactions
	// of one key wait for each other: one commit at a time. The row stays, so that Seq never begins
	// again. "": the message has no order, and waits for nothing.
	Key string

	// Type is what has happened, such as "refund.succeeded". Required.
	Type string

	// Source is the CloudEvents source. Default: Config.Source.
	Source string

	// Payload is delivered byte for byte.
	Payload []byte

	// Headers are delivered beside the payload, with names in lower case. "content-type" is that of
	// the payload. Names that belong to the delivery are refused: "ce-...", "ce_...", "once-...", "nats-...",
	// "idempotency-key", "traceparent", "content-length" and such.
	Headers map[string]string

	// Trace is the W3C traceparent that travels with the message. Default: what Config.Trace
	// finds in the context.
	Trace string

	// ID names the message in every delivery: a UUID in lower case. Default: a new one ([once.NewKey]). Consumers take a second
	// message with the same source and ID for a repetition, or for an error.
	ID string

	// Seq is 1, 2, 3, ... within the topic and key, without gaps; 0 of a message without a key.
	// Add ignores it.
	Seq int64

	// CreatedAt is when the message was added, by the clock of the database. Add ignores it.
	CreatedAt time.Time

	// Attempt is which delivery this is, 1 for the first one. Add ignores it.
	Attempt int
}

// TypeSkipped is the type of a message that a person has skipped. It is delivered in place of the
// skipped message, with its topic, key, ID and Seq and without its payload, so that a consumer which
// expects every Seq goes on.
const TypeSkipped = "once.skipped"
