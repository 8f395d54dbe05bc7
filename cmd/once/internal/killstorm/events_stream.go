package killstorm

import "context"

// Streams are those of the broker of a storm over events. It is not chosen here, so that this package is built without one. The broker is killed:
// each of these calls may fail, and is made again.
type Streams interface {
	// Read hands over what the relays have had stored, in the order of the broker, from that number on. The first message has the number 1. It returns
	// when ctx ends, or at the first failure.
	Read(ctx context.Context, number uint64, take func(EventMessage)) error

	// Copy stores a message in the stream of the receiver, once for each ID. It returns nil when the broker has confirmed it.
	Copy(ctx context.Context, id string, m EventMessage) error

	// Handled reports whether each of these consumers of the receiver has acknowledged all that is in its stream. progress changes as long as they do.
	Handled(ctx context.Context, consumers ...string) (progress uint64, all bool, err error)

	Close()
}

// EventMessage is a message of a broker.
type EventMessage struct {
	Subject string
	Header  map[string]string
	Payload []byte
}

// What a broker of a storm has.
const (
	EventStream    = "ONCE_DEMO"          // the stream of the relays
	ReceiverStream = "ONCE_DEMO_RECEIVER" // the stream of the receiver
	ReceiverPrefix = "unreliable."        // what the subjects of ReceiverStream begin with
)

// EventSubjects are the subjects of [EventStream].
var EventSubjects = []string{"charges", refundsSubject}

const refundsSubject = "refunds"
