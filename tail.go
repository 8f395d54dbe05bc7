package once

import (
	"context"
	"time"

	"github.com/oncelib/once/internal/lazy"
)

// tail is the context of what must come to its end whatever becomes of the caller: it has
// the caller's values and a deadline of its own. Its timer is made when somebody waits for
// the deadline: a store that only looks needs none.
type tail struct {
	lazy.Context

	caller values
}

// tail returns one for the next Config.Settle. Its owner ends it.
func (c *call[TX]) tail(ctx context.Context) *tail {
	t := &tail{caller: values{ctx}}
	t.Parent, t.Until = &t.caller, lazy.Now().Add(c.e.cfg.Settle)
	return t
}

// end frees what the tail holds.
func (t *tail) end() { t.Cancel(nil) }

// values is what context.WithoutCancel returns, as a part of something else. It does not
// hide from [context.Cause] what the caller ended with: the tail does, as soon as it has
// an end of its own.
type values struct {
	context.Context //nolint:containedctx // whose they are
}

func (values) Deadline() (time.Time, bool) { return time.Time{}, false }
func (values) Done() <-chan struct{}       { return nil }
func (values) Err() error                  { return nil }
