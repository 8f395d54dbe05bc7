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
	Malformed error // why Message could not be decoded; then the message becomes a dead letter
	Receipt   Receipt

	line     *line
	failures int  // how many deliveries have failed in this process
	inHand   bool // a worker has the message
	dropped  bool // another process gets the message now
	class    class
	apart    bool      // the message does not count against Prefetch
	since    time.Time // when the message came into the pool
}

// Receipt answers the broker. Several goroutines call its methods, but only one method at a time for one delivery. Only
// Extend may run at the same time as another method.
type Receipt interface {
	// Ack says that the message needs no further delivery.
	Ack()

	// Again asks the broker for another delivery after a pause. It returns false if the broker cannot do this. Then the pool
	// keeps the message, and tries it again by itself.
	Again(after time.Duration) bool

	// Extend says that this process still works on the message.
	Extend()

	// Apart says that the message may stay in the pool for a long time, because it has failed or because an earlier message of its
	// key delays it. The message, of the given size, does not count against Prefetch any more. A consumer of a broker without
	// redelivery must limit the number of such messages.
	Apart(bytes int)
}

// overhead is the memory that a message needs in addition to its bytes.
const overhead = 512

func (d *Delivery) size() int {
	n := overhead + len(d.Message.Payload)
	for name, value := range d.Message.Headers {
		n += len(name) + len(value)
	}
	return n
}

// Decode sets the message to the result of decode. If decode panics, the message is raw and counts as malformed: otherwise the
// panic would end the process at every delivery.
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

	// Hanging returns how many handlers still run after their time limit.
	Hanging() int

	// Attach makes the sink ask for the backlog, until detach is called.
	Attach(of func() inbox.Backlog) (detach func())
}

// Into returns a sink that applies messages with the inbox in and the handler fn.
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
