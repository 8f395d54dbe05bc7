package once

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/oncelib/once/store"
)

// frame is a run of a handler, and the context that it is given.
type frame struct {
	context.Context //nolint:containedctx // it is one

	engine any // whose it is
	tx     any // or the *Batch, in place of the transaction that is not there yet
	id     store.ID
	outer  *frame // of a Join: the handler that it is in
	over   atomic.Bool
}

// Value implements [context.Context].
func (f *frame) Value(key any) any {
	if key == f.engine {
		return f
	}
	return f.Context.Value(key)
}

// within returns the innermost handler that ctx belongs to and that still runs, nil if
// there is none. What a handler has started may outlive it.
func (e *Engine[TX]) within(ctx context.Context) *frame {
	f, _ := ctx.Value(e).(*frame)
	for f != nil && f.over.Load() {
		f = f.outer
	}
	return f
}

var errSame = errors.New("a join of the operation inside of whose handler it is: the inner one would take the outer one's key. Try: a key of its own")

// waitsForJoin is the verdict on a handler that has returned the error of a Join which has
// met another call: all of it can be tried again.
func (c *call[TX]) waitsForJoin(err error) (v verdict, is bool) {
	var inner *Error
	if !errors.As(err, &inner) || inner.Effect != NotApplied || inner.Code != CodeInFlight && inner.Code != CodeConflict {
		return v, false
	}
	v = verdict{err: c.fail(inner.Code, NotApplied, err), again: !c.joins}
	if own := (*Error)(nil); inner.After > 0 && errors.As(v.err, &own) {
		own.After = inner.After
	}
	return v, true
}
