package retry

import (
	"context"
	"log/slog"
)

// Log returns a function for [Policy].Observe that logs each event to l. If a call is given up, its last event is logged at level Warn. Every other
// event is logged at level Debug. If l is nil, each event is logged by the logger that slog.Default() returns at the time of the event. docs/logs.md
// lists the attributes.
func Log(l *slog.Logger) func(context.Context, Event) {
	return func(ctx context.Context, e Event) {
		to, level, said := l, slog.LevelDebug, "retry: "+string(e.Type)
		if to == nil {
			to = slog.Default()
		}
		if e.Stop != "" && e.Stop != ReasonPointless && e.Stop != ReasonCancelled {
			level, said = slog.LevelWarn, "retry: the client has given up a call, after its last attempt failed"
		}
		if !to.Enabled(ctx, level) {
			return
		}
		attrs := []slog.Attr{slog.Int("attempt", e.Attempt)}
		if e.URL != "" {
			attrs = append(attrs, slog.String("method", e.Method), slog.String("url", e.URL))
		}
		if e.Type == EventFailed {
			attrs = append(attrs, slog.String("class", e.Class.String()), slog.Duration("after", e.Wait))
		}
		if e.Stop != "" {
			attrs = append(attrs, slog.String("why", string(e.Stop)))
		}
		if e.Err != nil {
			attrs = append(attrs, slog.Any("error", e.Err))
		}
		to.LogAttrs(ctx, level, said, attrs...)
	}
}
