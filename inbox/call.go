package inbox

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// ErrHandlerTimeout says that a handler has not returned within Config.HandlerTimeout. Its transaction was rolled back.
var ErrHandlerTimeout = errors.New("inbox: the handler has not returned within its time (HandlerTimeout). Try: a handler that returns when its context ends, or a longer HandlerTimeout")

// longestGrace is how long a handler may go on when its time is over and its context has ended.
const longestGrace = time.Second

var errGoexit = errors.New("the handler has ended its goroutine (runtime.Goexit). Try: return an error")

// call calls the handler, in a goroutine of its own: a panic, runtime.Goexit and the end of its time are its failure, and take no
// consumer with them. A handler that does not return then is left alone: the store keeps it out of the transaction.
func call[TX any](ctx context.Context, tx TX, m Message, fn Handler[TX], most time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, most, ErrHandlerTimeout)
	defer cancel()
	returned := make(chan error, 1)
	go func() {
		err := errGoexit
		defer func() {
			if p := recover(); p != nil {
				err = &panicError{p, debug.Stack()}
			}
			returned <- err
		}()
		err = fn(ctx, tx, m)
	}()
	over := time.NewTimer(most + min(most, longestGrace))
	defer over.Stop()
	select {
	case err := <-returned:
		if err != nil && errors.Is(context.Cause(ctx), ErrHandlerTimeout) { // what it makes of that says nothing about the database
			return fmt.Errorf("%w; it had %v, and has returned later: %v", ErrHandlerTimeout, most, err) //nolint:errorlint // on purpose
		}
		return err
	case <-over.C:
		return fmt.Errorf("%w; it had %v", ErrHandlerTimeout, most)
	}
}

// timedOut returns the first of items whose handler has not returned in time; nil if there is none.
func timedOut(items []*item) *item {
	for _, it := range items {
		if errors.Is(it.err, ErrHandlerTimeout) {
			return it
		}
	}
	return nil
}

// untriedError is that of messages which were in a batch with one whose handler has not returned in time.
type untriedError struct{ error }

// Untried tells a consumer that the message has not failed, and can be delivered again at once.
func (untriedError) Untried() bool { return true }

var errUntried = untriedError{errors.New("it was not applied, because the handler of another message of its batch has not returned in time. Try: deliver it again")}

// panicError is a panic of the handler.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string {
	return fmt.Sprintf("the handler panics: %v\n%s", e.value, e.stack)
}
