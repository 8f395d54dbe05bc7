package once

import (
	"context"
	"errors"
	"log/slog"

	"github.com/oncelib/once/store"
)

// Log returns an observer that writes every event to l: finished calls at level
// Info, trouble that needs no one at Warn, and what a person should look at
// (effects outside of the transaction, handlers that end it or swallow its errors,
// commits that stay in doubt, tables that do not exist) at Error. The rest is Debug.
func Log(l *slog.Logger) Observer { return logObserver{l} }

// logObserver without a logger is the default of Config.Observer: it writes to what
// slog.Default() is at the moment of the event.
type logObserver struct{ l *slog.Logger }

func (o logObserver) Observe(ctx context.Context, e Event) {
	l, level := o.l, levelOf(e)
	if l == nil {
		l = slog.Default()
	}
	if !l.Enabled(ctx, level) {
		return
	}
	attrs := make([]slog.Attr, 0, 17)
	if e.Name != "" {
		attrs = append(attrs, slog.String("name", e.Name))
	}
	attrs = append(attrs, slog.String("scope", e.Scope), slog.String("key_hash", e.KeyHash))
	if e.Outcome != "" {
		attrs = append(attrs, slog.String("outcome", string(e.Outcome)), slog.String("effect", e.Effect.String()))
	}
	if e.Caller.RequestID != "" {
		attrs = append(attrs, slog.String("request_id", e.Caller.RequestID))
	}
	if e.Caller.CorrelationID != "" {
		attrs = append(attrs, slog.String("correlation_id", e.Caller.CorrelationID))
	}
	if e.Caller.Attempt != 0 {
		attrs = append(attrs, slog.Int("attempt", e.Caller.Attempt))
	}
	attrs = append(attrs, slog.Int("runs", e.Runs))
	if o.l != nil { // otherwise not measured
		attrs = append(attrs, slog.Duration("acquire", e.Acquire), slog.Duration("lock_wait", e.LockWait), slog.Duration("look_up", e.LookUp), slog.Duration("waited", e.Waited),
			slog.Duration("handler", e.Handler), slog.Duration("commit", e.Commit))
	}
	attrs = append(attrs, slog.Duration("total", e.Total))
	if e.Err != nil {
		attrs = append(attrs, slog.Any("error", e.Err))
	}
	l.LogAttrs(ctx, level, "once: "+string(e.Type), attrs...)
}

// warnings writes warnings and errors to slog.Default().
type warnings struct{}

func (warnings) Observe(ctx context.Context, e Event) {
	if levelOf(e) >= slog.LevelWarn {
		Log(slog.Default()).Observe(ctx, e)
	}
}

func levelOf(e Event) slog.Level {
	switch e.Type {
	case EventEffectOutsideTx:
		return slog.LevelError
	case EventInDoubt, EventRerun:
		return slog.LevelWarn
	case EventSettled:
		return slog.LevelInfo
	case EventFinished:
	default:
		return slog.LevelDebug
	}
	switch Code(e.Outcome) {
	case CodeAborted, CodeMisuse, CodeUnknown:
		return slog.LevelError
	case CodeUnavailable:
		if e.Effect == EffectInDoubt || errors.Is(e.Err, store.ErrNotMigrated) {
			return slog.LevelError
		}
		return slog.LevelWarn
	case CodeMismatch, CodeConflict, CodeNoResult, CodeFailed:
		return slog.LevelWarn
	}
	return slog.LevelInfo
}
