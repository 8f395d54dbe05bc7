package inbox

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/oncelib/once/message"
)

// ErrHandlerTimeout says that a handler has not returned within Config.HandlerTimeout. The transaction of the
// handler was rolled back.
var ErrHandlerTimeout = errors.New("inbox: the handler has not returned within Config.HandlerTimeout. Try: a handler that returns when its context ends, or a longer Config.HandlerTimeout")

// longestGrace is how long a handler may still run after its time limit, so that it can react to its ended context.
const longestGrace = time.Second

var errGoexit = errors.New("the handler has called runtime.Goexit. Try: return an error instead")

// call runs the handler in a separate goroutine. A panic, runtime.Goexit and a timeout of the handler
// therefore fail the message, and do not stop the consumer. A handler that does not return after its time limit
// is abandoned: the store closes the transaction of the handler. While an abandoned handler runs, further
// attempts of its message fail without a call, so a hanging message occupies only one place.
func (in *Inbox[TX]) call(ctx context.Context, tx TX, m message.Message, fn Handler[TX]) error {
	if since, hangs := in.hanging.since(&m); hangs {
		return stillRunsError{since}
	}
	most := in.cfg.HandlerTimeout
	ctx, cancel := context.WithTimeoutCause(ctx, most, ErrHandlerTimeout)
	defer cancel()
	// The channel has room for the result, so that the goroutine of an abandoned handler can still end.
	began, returned := time.Now(), make(chan error, 1)
	ended := new(bool)
	go func() {
		// runtime.Goexit runs the deferred function without a panic: then err keeps this value.
		err := errGoexit
		defer func() {
			if p := recover(); p != nil {
				err = &panicError{p, debug.Stack()}
			}
			returned <- err
			in.hanging.end(&m, ended)
		}()
		err = in.traced(ctx, tx, m, fn)
	}()
	// The context ends first. The timer ends later, so that a handler that reacts to its context counts as returned.
	over := time.NewTimer(most + min(most, longestGrace))
	defer over.Stop()
	select {
	case err := <-returned:
		if err != nil && errors.Is(context.Cause(ctx), ErrHandlerTimeout) { // the ended context has caused the error, not the message or the database
			return fmt.Errorf("%w; the time limit was %v, and the handler returned later with the error: %v", ErrHandlerTimeout, most, err) //nolint:errorlint // on purpose
		}
		return err
	case <-over.C:
		in.hanging.begin(&m, ended, began)
		return fmt.Errorf("%w; the time limit was %v, and the handler is still running", ErrHandlerTimeout, most)
	}
}

// stillRunsError says that the handler was not called, because the handler of an earlier attempt is still running.
type stillRunsError struct{ since time.Time }

func (e stillRunsError) Error() string {
	return fmt.Sprintf("%v; the handler was not called again, because the handler of an earlier attempt has been running since %v", ErrHandlerTimeout, e.since.UTC().Format(time.RFC3339))
}

func (e stillRunsError) Unwrap() error { return ErrHandlerTimeout }

// isTimeout reports whether err says that a called handler has not returned in time. The transaction of the
// handler can no longer be used.
func isTimeout(err error) bool {
	return errors.Is(err, ErrHandlerTimeout) && !errors.As(err, new(stillRunsError))
}

// timedOut returns the first item whose handler has not returned in time, or nil.
func timedOut(items []*item) *item {
	for _, it := range items {
		if isTimeout(it.err) {
			return it
		}
	}
	return nil
}

// untriedError is the error of a message that was not tried, because the handler of an earlier message of the
// same batch has timed out.
type untriedError struct{ error }

// Untried says to a consumer that the message has not failed, and can be delivered again at once.
func (untriedError) Untried() bool { return true }

var errUntried = untriedError{errors.New("the message was not applied, because the handler of an earlier message of the same batch has not returned in time. Try: deliver the message again")}

// panicError is the error of a handler that has panicked.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string {
	return fmt.Sprintf("the handler panicked: %v\n%s", e.value, e.stack)
}
