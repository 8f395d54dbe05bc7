package outbox

import (
	"context"
	"errors"
)

// Publisher delivers messages to a broker or a service.
type Publisher interface {
	// Publish delivers messages and returns one error for each, nil for those that the
	// destination has confirmed. A nil slice says that all are confirmed. Messages of one topic and key are in
	// order; after one of them has failed, Publish delivers no later one of that topic and key in this call,
	// and returns an error for it as well.
	//
	// An error is [Permanent] if the destination will never take the message, [Unavailable] if the
	// destination cannot be reached, [Closed] if this publisher can reach it no more, and of this message otherwise. Publish returns soon after ctx has ended.
	Publish(ctx context.Context, messages []Message) []error
}

// PublisherFunc is a function that is a [Publisher].
type PublisherFunc func(ctx context.Context, messages []Message) []error

// Publish implements [Publisher].
func (f PublisherFunc) Publish(ctx context.Context, messages []Message) []error {
	return f(ctx, messages)
}

// Permanent returns err as one that no other attempt can change: the relay does not try again, and
// the key of the message is stopped until the message is skipped or resumed.
func Permanent(err error) error { return &publishError{err, permanent} }

// Unavailable returns err as one that says nothing about the message: the destination cannot be
// reached, or takes nothing now. It counts as no attempt. All messages of the topic wait, for as long as [retry.After]
// in err says at least, and the topic is tried again. Other topics go on.
func Unavailable(err error) error { return &publishError{err, unavailable} }

// IsPermanent reports whether err is from [Permanent].
func IsPermanent(err error) bool { return is(err, permanent) }

// IsUnavailable reports whether err is from [Unavailable].
func IsUnavailable(err error) bool { return is(err, unavailable) }

type publishClass uint8

const (
	permanent publishClass = iota + 1
	unavailable
)

type publishError struct {
	error
	class publishClass
}

func (e *publishError) Unwrap() error { return e.error }

func is(err error, class publishClass) bool {
	var e *publishError
	return errors.As(err, &e) && e.class == class
}
