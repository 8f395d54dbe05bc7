package once

import (
	"context"
	"sync"
	"time"
)

// tail is the context of what must come to its end whatever becomes of the caller: it has
// the caller's values and a deadline of its own. Its timer is made when somebody waits for
// the deadline: a store that only looks needs none.
type tail struct {
	caller   context.Context //nolint:containedctx // it is a context
	deadline time.Time

	mu    sync.Mutex
	timed context.Context //nolint:containedctx // it is a context; nil: nobody has waited yet
	stop  context.CancelFunc
	over  bool
}

// tail returns one for the next Config.Settle. Its owner ends it.
func (c *call[TX]) tail(ctx context.Context) *tail {
	return &tail{caller: ctx, deadline: time.Now().Add(c.e.cfg.Settle)}
}

// end frees what the tail holds.
func (t *tail) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over = true; t.stop != nil {
		t.stop()
	}
}

// Deadline implements [context.Context].
func (t *tail) Deadline() (time.Time, bool) { return t.deadline, true }

// Done implements [context.Context].
func (t *tail) Done() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.real().Done()
}

// Err implements [context.Context].
func (t *tail) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timed == nil && !t.over && time.Now().Before(t.deadline) {
		return nil
	}
	return t.real().Err()
}

// Value implements [context.Context]. From where there is a real context, package context
// finds it here: what is derived from the tail then needs no goroutine to watch it.
func (t *tail) Value(key any) any {
	t.mu.Lock()
	timed := t.timed
	t.mu.Unlock()
	if timed == nil {
		timed = context.WithoutCancel(t.caller) // whose end context.Cause would find
	}
	return timed.Value(key)
}

// real returns a context of package context with this deadline. The caller has the lock.
func (t *tail) real() context.Context {
	if t.timed != nil {
		return t.timed
	}
	if t.timed = context.WithoutCancel(t.caller); t.over {
		t.timed, t.stop = context.WithCancel(t.timed)
		t.stop()
	} else {
		t.timed, t.stop = context.WithDeadline(t.timed, t.deadline)
	}
	return t.timed
}
