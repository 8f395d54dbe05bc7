package consume

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/message"
)

// Delivery is one message that a broker has delivered.
type Delivery struct {
	Message   message.Message
	Malformed error // why Message could not be decoded; it is a dead letter then
	Receipt   Receipt

	line     *line
	failures int  // deliveries in this process that have failed
	inHand   bool // a worker has it
	dropped  bool // it belongs to another process now
	class    class
	apart    bool      // it does not count against Prefetch
	since    time.Time // it is in the pool
}

// Receipt answers the broker. Its methods are called by several goroutines, for one delivery at most once at a time; only
// Extend may come at the same time as one of the others.
type Receipt interface {
	// Ack says that the message needs no other delivery.
	Ack()

	// Again asks the broker for another delivery after a pause. It returns false if the broker cannot do that. The
	// pool then keeps the message and tries again itself.
	Again(after time.Duration) bool

	// Extend says that the message is still being worked on.
	Extend()

	// Apart says that the message, of so many bytes, may wait for long in the pool: it has failed, or another one of its key holds it up.
	// It does not count against Prefetch any more. A broker that delivers nothing again has to bound how many of these there are.
	Apart(bytes int)
}

// overhead is the memory of a message besides its bytes.
const overhead = 512

func (d *Delivery) size() int {
	n := overhead + len(d.Message.Payload)
	for name, value := range d.Message.Headers {
		n += len(name) + len(value)
	}
	return n
}

// Decode sets the message to what decode returns. If decode panics, it is raw and malformed: a panic must not end the
// process with every delivery.
func (d *Delivery) Decode(raw message.Message, decode func() (message.Message, error)) {
	d.Message = raw
	defer func() {
		if p := recover(); p != nil {
			d.Malformed = fmt.Errorf("the decoder of the message panicked: %v\n%s", p, debug.Stack())
		}
	}()
	d.Message, d.Malformed = decode()
}

// Sink applies messages.
type Sink interface {
	HandleBatch(ctx context.Context, messages []message.Message) []inbox.Result
	Refuse(ctx context.Context, m message.Message, class string, reason error) error
	Run(ctx context.Context) error

	// Hanging returns how many handlers go on although their time is over.
	Hanging() int

	// Attach has the sink ask for the backlog until detach is called.
	Attach(of func() inbox.Backlog) (detach func())
}

// Into returns in, with its handler, as a sink.
func Into[TX any](in *inbox.Inbox[TX], fn inbox.Handler[TX]) Sink {
	return &sink[TX]{Inbox: in, fn: fn}
}

type sink[TX any] struct {
	*inbox.Inbox[TX]

	fn inbox.Handler[TX]
}

func (s *sink[TX]) HandleBatch(ctx context.Context, messages []message.Message) []inbox.Result {
	return s.Inbox.HandleBatch(ctx, messages, s.fn)
}

func (s *sink[TX]) Run(ctx context.Context) error { return s.Inbox.Run(ctx, s.fn) }
