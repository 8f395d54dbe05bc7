package inbox

import "time"

// Longest texts of a message, in bytes.
const (
	MaxConsumer = 64
	MaxID       = 255
	MaxSource   = 255
	MaxTopic    = 255
	MaxKey      = 255
	MaxType     = 255
	MaxHeaders  = 64 << 10 // all names and values together
	MaxPayload  = 1 << 20  // default of Config.MaxPayload
)

// Message is one event, as a broker has delivered it.
type Message struct {
	// ID and Source name the event in every delivery: the CloudEvents id and source. ID is required.
	// Default of Source: "once".
	ID, Source string

	Topic string // it came by this topic, subject or path
	Key   string // messages of one source, topic and key have an order: see Seq. "": none
	Type  string // what has happened, such as "refund.succeeded"

	// Seq is the position or the version of the message within its source, topic and key: 1, 2, 3, ... of an
	// outbox. 0: it has none.
	Seq int64

	Payload []byte
	Headers map[string]string

	Trace     string    // W3C traceparent; "" is none
	CreatedAt time.Time // zero: not known
	Delivery  int       // which delivery of the broker this is, 1 for the first one; 0: not known
}

// TypeSkipped is the type of a marker that takes the place of a message which a person has skipped in
// an outbox. It takes its Seq, and no handler runs.
const TypeSkipped = "once.skipped"
