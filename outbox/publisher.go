package outbox

import (
	"context"
	"errors"

	"github.com/oncelib/once/message"
)

// Publisher delivers messages to a broker or a service.
type Publisher interface {
	// Publish delivers messages and returns one error for each message; a nil error means that the destination
	// has confirmed the message. If Publish returns a nil slice, all messages were confirmed. In the slice
	// messages, the messages of one topic and key are in the order in which Publish must deliver them. If a
	// message fails, Publish must not deliver later messages of the same topic and key in this call, and must
	// return an error for each of these later messages, too.
	//
	// An error is [retry.Permanent] if the destination will never accept the message, [Unavailable] if the
	// destination cannot be reached, and [Closed] if this publisher can never reach the destination again.
	// Any other error concerns only the message for which it is returned. Publish must return soon after ctx
	// has ended.
	Publish(ctx context.Context, messages []message.Message) []error
}

// PublisherFunc is a function that implements [Publisher].
type PublisherFunc func(ctx context.Context, messages []message.Message) []error

// Publish implements [Publisher].
func (f PublisherFunc) Publish(ctx context.Context, messages []message.Message) []error {
	return f(ctx, messages)
}

// Unavailable wraps err to say that the destination cannot be reached, or accepts no message at the moment. So
// the message is not the cause of the error. A delivery that has failed with Unavailable does not count as an
// attempt. After a delivery that has failed with Unavailable, all messages of the topic wait before the relay
// tries to deliver the topic again. If err contains a time of [retry.After], the messages of the topic wait at
// least this time. While one topic waits, the relay delivers the messages of other topics.
func Unavailable(err error) error { return &unavailableError{err} }

// IsUnavailable reports whether err, or an error in its chain, was made by [Unavailable].
func IsUnavailable(err error) bool { return errors.As(err, new(*unavailableError)) }

type unavailableError struct{ error }

func (e *unavailableError) Unwrap() error { return e.error }
