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

// longestGrace is how long a handler may still run after the end of its time, when its context has ended.
const longestGrace = time.Second

var errGoexit = errors.New("the handler has called runtime.Goexit. Try: return an error instead")

// call calls the handler in a goroutine of its own, so that a panic, runtime.Goexit and the end of its time
// fail the message, and do not stop the consumer. A handler that still does not return is abandoned: the store
// closes its transaction to it. While such a handler is running, further attempts of its message fail without a
// call, so that a hanging message occupies only one place.
func (in *Inbox[TX]) call(ctx context.Context, tx TX, m message.Message, fn Handler[TX]) error {
	if since, hangs := in.hanging.since(&m); hangs {
		return stillRunsError{since}
	}
	most := in.cfg.HandlerTimeout
	ctx, cancel := context.WithTimeoutCause(ctx, most, ErrHandlerTimeout)
	defer cancel()
	began, returned := time.Now(), make(chan error, 1)
	ended := new(bool)
	go func() {
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
	over := time.NewTimer(most + min(most, longestGrace))
	defer over.Stop()
	select {
	case err := <-returned:
		if err != nil && errors.Is(context.Cause(ctx), ErrHandlerTimeout) { // an error after the timeout says nothing about the database
			return fmt.Errorf("%w; the handler had %v, and returned after that: %v", ErrHandlerTimeout, most, err) //nolint:errorlint // on purpose
		}
		return err
	case <-over.C:
		in.hanging.begin(&m, ended, began)
		return fmt.Errorf("%w; the handler had %v, and is still running", ErrHandlerTimeout, most)
	}
}

// stillRunsError says that the handler was not called, because the handler of an earlier attempt is still running.
type stillRunsError struct{ since time.Time }

func (e stillRunsError) Error() string {
	return fmt.Sprintf("%v; the handler was not called again, because the handler of an earlier attempt has been running since %v", ErrHandlerTimeout, e.since.UTC().Format(time.RFC3339))
}

func (e stillRunsError) Unwrap() error { return ErrHandlerTimeout }

// isTimeout reports whether an error says that a called handler has not returned in time. Its transaction can no longer be used.
func isTimeout(err error) bool {
	return errors.Is(err, ErrHandlerTimeout) && !errors.As(err, new(stillRunsError))
}

// timedOut returns the first of items whose handler has not returned in time, or nil.
func timedOut(items []*item) *item {
	for _, it := range items {
		if isTimeout(it.err) {
			return it
		}
	}
	return nil
}

// untriedError is the error of messages that came after a timed out one in the same batch.
type untriedError struct{ error }

// Untried says to a consumer that the message has not failed, and can be delivered again at once.
func (untriedError) Untried() bool { return true }

var errUntried = untriedError{errors.New("the message was not applied, because the handler of an earlier message of the same batch has not returned in time. Try: deliver the message again")}

// panicError is a panic of the handler.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string {
	return fmt.Sprintf("the handler panicked: %v\n%s", e.value, e.stack)
}
