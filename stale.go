package once

import (
	"errors"
	"time"
)

// ErrFuture is the cause of a [CodeInvalid]: Operation.FirstSent has not come yet.
var ErrFuture = errors.New("first sent in the future, further than clocks may differ")

// skew is how far the caller's clock may be from the database's.
func (e *Engine[TX]) skew(op Operation) time.Duration {
	return or(e.cfg.Skew, min(DefaultSkew, e.retain(op)/4))
}

func (e *Engine[TX]) retain(op Operation) time.Duration { return or(op.Retain, e.cfg.Retain) }

// kept is what a store is told, to which 0 is for ever.
func (e *Engine[TX]) kept(op Operation) time.Duration {
	if retain := e.retain(op); retain != KeepForever {
		return retain
	}
	return 0
}

// until is when a first attempt of op may have been executed and forgotten: it was
// recorded after it was sent, and expires a retention after that.
func (e *Engine[TX]) until(op Operation) time.Time {
	if op.FirstSent.IsZero() || e.retain(op) == KeepForever { // what is absent was never done
		return time.Time{}
	}
	return op.FirstSent.Add(e.retain(op) - e.skew(op))
}
