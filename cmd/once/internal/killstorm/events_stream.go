package killstorm

import "context"

// Streams are the streams of the broker of a storm over events. It is an interface so that this package is built without a broker. The broker is
// killed: each of these calls may fail, and is repeated.
type Streams interface {
	// Read passes the messages that the relays have stored to take, in the order of the broker, from a number on. The first message has the number 1.
	// It returns when ctx ends, or at the first failure.
	Read(ctx context.Context, number uint64, take func(EventMessage)) error

	// Copy stores a message in the stream of the receiver, once for each ID. It returns nil when the broker has confirmed it.
	Copy(ctx context.Context, id string, m EventMessage) error

	// Handled reports whether each of these consumers of the receiver has acknowledged all messages of its stream. progress changes as long as they
	// acknowledge some.
	Handled(ctx context.Context, consumers ...string) (progress uint64, all bool, err error)

	Close()
}

// EventMessage is a message of a broker.
type EventMessage struct {
	Subject string
	Header  map[string]string
	Payload []byte
}

// Streams of a broker of a storm.
const (
	EventStream    = "ONCE_DEMO"          // the stream of the relays
	ReceiverStream = "ONCE_DEMO_RECEIVER" // the stream of the receiver
	ReceiverPrefix = "unreliable."        // prefix of the subjects of ReceiverStream
)

// EventSubjects are the subjects of [EventStream].
var EventSubjects = []string{"charges", refundsSubject}

const refundsSubject = "refunds"
