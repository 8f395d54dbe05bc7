package once

import (
	"context"
	"log/slog"
)

// Log returns an observer that writes every event to l: finished calls at level
// Info, trouble that needs no one at Warn, and what a person should look at
// (effects outside of the transaction, handlers that end it or swallow its errors,
// commits that stay in doubt) at Error. The rest is Debug.
func Log(l *slog.Logger) Observer { return logObserver{l} }

type logObserver struct{ l *slog.Logger }

func (o logObserver) Observe(ctx context.Context, e Event) {
	level := levelOf(e)
	if !o.l.Enabled(ctx, level) {
		return
	}
	attrs := make([]slog.Attr, 0, 14)
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
	attrs = append(attrs, slog.Int("runs", e.Runs), slog.Duration("lock_wait", e.LockWait), slog.Duration("waited", e.Waited),
		slog.Duration("handler", e.Handler), slog.Duration("commit", e.Commit), slog.Duration("total", e.Total))
	if e.Err != nil {
		attrs = append(attrs, slog.Any("error", e.Err))
	}
	o.l.LogAttrs(ctx, level, "once: "+string(e.Type), attrs...)
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
		if e.Effect == InDoubt {
			return slog.LevelError
		}
		return slog.LevelWarn
	case CodeMismatch, CodeConflict, CodeNoResult, CodeFailed:
		return slog.LevelWarn
	}
	return slog.LevelInfo
}
