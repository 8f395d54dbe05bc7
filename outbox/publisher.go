package outbox

import (
	"context"
	"errors"

	"github.com/oncelib/once/message"
)

// Publisher delivers messages to a broker or a service.
type Publisher interface {
	// Publish delivers messages and returns one error for each; nil means that the destination has confirmed the message. A nil slice means that all
	// are confirmed. Messages of one topic and key are in order; after one of them has failed, Publish delivers no later one of that topic and key in
	// this call,
	// and returns an error for it as well.
	//
	// An error is [retry.Permanent] if the destination will never take the message, [Unavailable] if the
	// destination cannot be reached, [Closed] if this publisher can reach it no more, and of this message otherwise. Publish returns soon after ctx has ended.
	Publish(ctx context.Context, messages []message.Message) []error
}

// PublisherFunc is a function that is a [Publisher].
type PublisherFunc func(ctx context.Context, messages []message.Message) []error

// Publish implements [Publisher].
func (f PublisherFunc) Publish(ctx context.Context, messages []message.Message) []error {
	return f(ctx, messages)
}

// Unavailable returns err marked as an error of the destination, not of the message: the destination cannot be reached, or accepts nothing now. It
// does not count as an attempt. All messages of the topic wait, at least as long as [retry.After] in err says, and then the topic is tried again.
// Other topics go on.
func Unavailable(err error) error { return &unavailableError{err} }

// IsUnavailable reports whether err is from [Unavailable].
func IsUnavailable(err error) bool { return errors.As(err, new(*unavailableError)) }

type unavailableError struct{ error }

func (e *unavailableError) Unwrap() error { return e.error }
