package saga

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/oncelib/once"
)

// Again returns an error for a step or a flow that cannot continue yet. The step or the flow runs again after the
// time d, or after a [Runner.Wake]. A run that returns an error of Again does not count as a try (see
// [Config].Attempts). Until the next run the saga holds neither a lock nor a connection.
func Again(d time.Duration) error { return &againError{d} }

type againError struct{ after time.Duration }

func (e *againError) Error() string {
	return fmt.Sprintf("the step or the flow cannot continue yet, and runs again in %v", e.after)
}

// These are the codes of the failures with which a saga ends although no step has returned "no".
const (
	CodeCancelled = "SAGA.cancelled" // the saga was cancelled by [Runner.Cancel]
	CodeDeadline  = "SAGA.deadline"  // the saga has reached its deadline: see [Definition.Deadline]
	CodeExhausted = "SAGA.exhausted" // a step has failed the maximum number of times
	CodeUnknown   = "SAGA.unknown"   // the outcome of a call is unknown, and the call was cancelled at its service
)

var (
	// ErrStuck is in the chain of the error if the saga is stuck: the saga does not continue before a person has
	// decided. See [Decide].
	ErrStuck = errors.New("the saga is stuck until an operator decides")

	// ErrPivot is in the chain of the error when a caller tries to cancel a saga after its pivot (the step after
	// which a saga can no longer be undone).
	ErrPivot = errors.New("the saga has passed its pivot, so it cannot be cancelled")

	// ErrEnded is in the chain of the error when a caller tries to change a saga that has already ended.
	ErrEnded = errors.New("the saga has ended")

	// ErrNothing is in the chain of the error if the saga was not started, or if the stored record of the saga
	// has expired.
	ErrNothing = errors.New("there is no such saga")
)

// These are the reasons why a run of a saga stops. The saga continues on another node, or later.
var (
	errLost   = errors.New("another process runs the saga now")
	errExists = errors.New("a saga with this ID exists already")
	errStop   = errors.New("this process is shutting down, and begins no more steps")
)

// stuckError says why a saga cannot continue.
type stuckError struct{ why string }

func (e *stuckError) Error() string { return e.why }

func stuckf(format string, args ...any) error { return &stuckError{fmt.Sprintf(format, args...)} }

// panicError is a panic in the user's code.
type panicError struct{ value any }

func (e *panicError) Error() string { return fmt.Sprintf("the function panicked: %v", e.value) }

var errHangs = errors.New("the function has not returned, although its context has ended. Try: a function that returns when its context ends")

var errGoexit = errors.New("the function has called runtime.Goexit. Try: return an error instead")

// protect runs code of the user in a separate goroutine, which sends the result of the code. A panic and runtime.Goexit become
// errors, so that no transaction stays open.
func protect(fn func() error) <-chan error {
	// The channel has room, so that the goroutine never waits.
	ended := make(chan error, 1)
	go func() {
		spread()
		err := errGoexit
		defer func() {
			if v := recover(); v != nil {
				err = &panicError{v}
			}
			ended <- err
		}()
		err = fn()
	}()
	return ended
}

// spread makes the stack of a new goroutine grow while it is empty. JSON and drivers need this space. Without spread, the stack
// would grow in four steps, and each step would copy all frames.
//
//go:noinline
func spread() byte {
	var room [12 << 10]byte
	return room[len(errGoexit.Error())]
}

// failureIn returns the failure of the step in the chain of err, or nil. A Detail that is not JSON is stored as a string.
func failureIn(err error) *once.Failure {
	var f *once.Failure
	if !errors.As(err, &f) || f == nil || len(f.Detail) == 0 || json.Valid(f.Detail) {
		return f
	}
	quoted := *f
	quoted.Detail, _ = json.Marshal(string(f.Detail)) //nolint:errchkjson // any text is JSON
	return &quoted
}
