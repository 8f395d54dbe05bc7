package outbox

import (
	"context"
	"errors"
	"fmt"
)

// Closed wraps err to say that a [Publisher] can never deliver anything again, because its client library has
// closed the connection for good, for example after a password was refused. The failed delivery does not count
// as an attempt, and [Relay.Run] returns the error. The text of err must name the host and the cause.
func Closed(err error) error { return &closedError{&unavailableError{err}} }

// IsClosed reports whether err, or an error in its chain, was made by [Closed].
func IsClosed(err error) bool { return errors.As(err, new(*closedError)) }

type closedError struct{ error }

func (e *closedError) Unwrap() error { return e.error }

// endIfClosed ends Run if one of errs, the errors of a call of Publish, says that the publisher is closed. The
// parameter end is the cancel function of the context of Run.
func endIfClosed(end context.CancelCauseFunc, errs []error) {
	for _, err := range errs {
		if IsClosed(err) {
			end(err)
			return
		}
	}
}

// closedCause returns the error of Run if endIfClosed has ended ctx, and nil otherwise.
func closedCause(ctx context.Context) error {
	if err := context.Cause(ctx); IsClosed(err) {
		return fmt.Errorf("outbox: the relay has ended, because its publisher is closed: %w", err)
	}
	return nil
}
