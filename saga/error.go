package saga

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/oncelib/once"
)

// Again returns the error of a step, or of a flow, that cannot go on yet: it runs again after d, or when the saga is woken
// ([Runner.Wake]). It does not count as a try. Until then the saga holds nothing.
func Again(d time.Duration) error { return &againError{d} }

type againError struct{ after time.Duration }

func (e *againError) Error() string { return fmt.Sprintf("not yet: again in %v", e.after) }

// Codes of failures that end a saga which no step has refused.
const (
	CodeCancelled = "SAGA.cancelled" // by [Runner.Cancel]
	CodeDeadline  = "SAGA.deadline"  // [Definition.Deadline] is over
	CodeExhausted = "SAGA.exhausted" // a step has failed as often as it may
	CodeUnknown   = "SAGA.unknown"   // nothing tells whether a call took effect, and it was cancelled at its service
)

var (
	// ErrStuck is in the chain of the error of a saga that cannot go on: a person decides. See [Decide].
	ErrStuck = errors.New("the saga is stuck, and a person decides")

	// ErrPivot is in the chain of the error of a cancel that comes too late.
	ErrPivot = errors.New("the saga has passed its pivot, and only goes forward")

	// ErrEnded is in the chain of the error of a call that changes a saga which has ended.
	ErrEnded = errors.New("the saga has ended")

	// ErrNothing is in the chain of the error of a call about a saga that was not started, or whose record has expired.
	ErrNothing = errors.New("there is no such saga")
)

// Why a run of a saga stops. The saga itself goes on, or has gone on, elsewhere.
var (
	errLost   = errors.New("another node has the saga")
	errExists = errors.New("the saga exists")
	errStop   = errors.New("this node takes no more steps")
)

// stuckError is why a saga cannot go on.
type stuckError struct{ why string }

func (e *stuckError) Error() string { return e.why }

func stuckf(format string, args ...any) error { return &stuckError{fmt.Sprintf(format, args...)} }

// panicError is a panic in code of the user.
type panicError struct{ value any }

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

var errGoexit = errors.New("the function has ended its goroutine (runtime.Goexit). Try: return an error")

// protect runs code of the user, in a goroutine of its own: a panic and runtime.Goexit are errors like any other, and leave no transaction open.
func protect(fn func() error) error {
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
	return <-ended
}

// spread has the stack of a new goroutine grow while there is nothing on it to be copied. JSON and a driver need that room, and would come to it
// in four copies of all their frames.
//
//go:noinline
func spread() byte {
	var room [12 << 10]byte
	return room[len(errGoexit.Error())]
}

// failureIn returns the "no" in err's chain, nil if there is none. A Detail that is no JSON could not be stored: it is kept as a string.
func failureIn(err error) *once.Failure {
	var f *once.Failure
	if !errors.As(err, &f) || f == nil || len(f.Detail) == 0 || json.Valid(f.Detail) {
		return f
	}
	quoted := *f
	quoted.Detail, _ = json.Marshal(string(f.Detail)) //nolint:errchkjson // any text is JSON
	return &quoted
}
