package oncetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/store/sqlplane"
)

// Work describes a function that must take effect once, for [Do] and [Lease].
type Work struct {
	// Start opens the databases and clients that the work needs, with methods of p. Start returns a function that does the work of an operation,
	// for example with [once.Do]. If the function that Start returns is called again for the same operation, the function must return the same
	// value. Start is called again after each death of the process.
	Start func(p *Process) func(ctx context.Context, op once.Operation) (any, error)

	Database sqlplane.Database     // as in [Service]
	Count    map[string]func() int // as in [Service]
	Ignore   []string              // as in [Service]
	Skip     []Fault               // as in [Service]
}

// Do tests the function that w describes: see the package documentation. Each new operation has a new key. For [FaultMismatch], Do calls the
// function with the key of an earlier operation and another fingerprint.
func Do(t testing.TB, w Work) {
	t.Helper()
	w.suite(t).run()
}

// Lease does the same as [Do], for work that holds a lease. The test also fails if no process takes over the work of a
// process that has died.
func Lease(t testing.TB, w Work) {
	t.Helper()
	s := w.suite(t)
	s.leased = true
	s.run()
}

func (w Work) suite(t testing.TB) *suite {
	s := &suite{settings: settings{w.Database, w.Count, w.Ignore, w.Skip}, tb: t}
	s.start = func(p *Process) func(context.Context, intent) answer {
		work := w.Start(p)
		return func(ctx context.Context, in intent) answer {
			body := "a request"
			if in.other {
				body = "another request"
			}
			op := once.Operation{Scope: "oncetest", Key: in.key, Fingerprint: once.FingerprintOf([]byte(body))}
			return recovered(func() (any, error) { return work(ctx, op) })
		}
	}
	s.intend = func() intent { return intent{key: once.NewKey()} }
	s.differ = func(in intent) (intent, bool) {
		in.other = true
		return in, true
	}
	return s
}

// recovered calls a function and returns its answer. A panic is not a final answer.
func recovered(call func() (any, error)) (a answer) {
	defer func() {
		if r := recover(); r != nil {
			a = answer{text: fmt.Sprint("by a panic: ", r)}
		}
	}()
	return classified(call())
}

// classified returns the answer that the results of a function mean.
func classified(value any, err error) answer {
	var f *once.Failure
	switch code := once.CodeOf(err); {
	case err == nil:
		return answer{final: true, success: true, kind: "a value", text: fmt.Sprintf("%+v", value)}
	case errors.As(err, &f):
		return answer{final: true, kind: "failure " + f.Code, text: "failure " + f.Code + " " + f.Message}
	case code == once.CodeUnknown:
		return answer{final: true, kind: unknown, text: "unknown"}
	case slices.Contains([]once.Code{once.CodeInvalid, once.CodeMismatch, once.CodeStale, once.CodeNoResult}, code):
		return answer{final: true, kind: string(code), text: err.Error()}
	}
	return answer{text: err.Error()}
}

// Consumer describes a function that applies messages. The function [Inbox] tests a Consumer.
type Consumer struct {
	// Start opens the databases and clients that the consumer needs, with methods of p. Start returns a function that handles one delivery of a
	// message, for example with inbox.Inbox.Handle. Start is called again after each death of the process.
	Start func(p *Process) func(ctx context.Context, m message.Message) error

	// Message returns a message that takes effect. If the message has no ID, the test adds an ID.
	Message func() message.Message

	Database sqlplane.Database     // as in [Service]
	Count    map[string]func() int // as in [Service]
	Ignore   []string              // as in [Service]
	Skip     []Fault               // as in [Service]
}

// Inbox tests the consumer that c describes: see the package documentation. Each message is delivered until the consumer returns no error, and then
// one more time. Inbox does not cause [FaultMismatch].
func Inbox(t testing.TB, c Consumer) {
	t.Helper()
	s := suite{settings: settings{c.Database, c.Count, c.Ignore, c.Skip}, tb: t}
	s.start = func(p *Process) func(context.Context, intent) answer {
		handle := c.Start(p)
		return func(ctx context.Context, in intent) answer {
			m, _ := in.request.(message.Message)
			return recovered(func() (any, error) { return "acknowledged", handle(ctx, m) })
		}
	}
	s.intend = func() intent {
		m := c.Message()
		if m.ID == "" {
			m.ID = once.NewKey()
		}
		return intent{key: m.ID, request: m}
	}
	s.run()
}
