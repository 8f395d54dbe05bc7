package oncetest

import (
	"context"
	"fmt"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/store/sqlplane"
)

// Work is a function that must take effect once.
type Work struct {
	// Start opens what the work needs, on the connections of a process, and returns a function that does the work of an operation, once.Do for
	// example. What it returns must be the same for all calls of one operation. Start is called again after each death.
	Start func(p *Process) func(ctx context.Context, op once.Operation) (any, error)

	Database sqlplane.Database     // as in [Service]
	Count    map[string]func() int // as in [Service]
	Ignore   []string              // as in [Service]
	Skip     []Kind                // as in [Service]
}

// Do tests work that is called by a program. Each operation has a new key; [AnotherBody] is another fingerprint.
func Do(t testing.TB, w Work) {
	t.Helper()
	w.lab(t).run()
}

// Lease is [Do] for work under a lease, which survives its process: after some death another process must take it over.
func Lease(t testing.TB, w Work) {
	t.Helper()
	l := w.lab(t)
	l.leased = true
	l.run()
}

func (w Work) lab(t testing.TB) *lab {
	l := &lab{settings: settings{w.Database, w.Count, w.Ignore, w.Skip}, tb: t}
	l.start = func(p *Process) func(context.Context, intent) answer {
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
	l.intend = func() intent { return intent{key: once.NewKey()} }
	l.other = func(in intent) (intent, bool) {
		in.other = true
		return in, true
	}
	return l
}

// recovered calls, and has a panic be an error.
func recovered(call func() (any, error)) (a answer) {
	defer func() {
		if r := recover(); r != nil {
			a = answer{text: fmt.Sprint("by a panic: ", r)}
		}
	}()
	return classified(call())
}

// Consumer is a function that applies messages.
type Consumer struct {
	// Start opens what the consumer needs, on the connections of a process, and returns a function that handles one delivery: [inbox.Inbox.Handle]
	// for example. It is called again after each death.
	Start func(p *Process) func(ctx context.Context, m message.Message) error

	// Message makes a message that takes effect. It gets an ID if it has none.
	Message func() message.Message

	Database sqlplane.Database     // as in [Service]
	Count    map[string]func() int // as in [Service]
	Ignore   []string              // as in [Service]
	Skip     []Kind                // as in [Service]
}

// Inbox tests a consumer: each message is delivered until it is acknowledged, and then again. There is no [AnotherBody].
func Inbox(t testing.TB, c Consumer) {
	t.Helper()
	l := lab{settings: settings{c.Database, c.Count, c.Ignore, c.Skip}, tb: t}
	l.start = func(p *Process) func(context.Context, intent) answer {
		handle := c.Start(p)
		return func(ctx context.Context, in intent) answer {
			m, _ := in.request.(message.Message)
			return recovered(func() (any, error) { return "acknowledged", handle(ctx, m) })
		}
	}
	l.intend = func() intent {
		m := c.Message()
		if m.ID == "" {
			m.ID = once.NewKey()
		}
		return intent{key: m.ID, request: m}
	}
	l.run()
}
