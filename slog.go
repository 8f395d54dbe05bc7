package once

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"

	"github.com/oncelib/once/internal/base/traceparent"
	"github.com/oncelib/once/store"
)

// Log returns an observer that writes every event to l. If a call has a key, its EventFinished is at level
// Info. Problems that need no action of an operator are at level Warn. Events that an operator should look at
// are at level Error: effects outside of the transaction, handlers that end the transaction or ignore errors
// of the transaction, commits that stay in doubt, and tables that do not exist. All other events are at level
// Debug. The names of the attributes are a contract: docs/logs.md lists them.
func Log(l *slog.Logger) Observer { return logObserver{l: l} }

// LogSampled is like [Log], but of the events below level Warn the observer writes only a sample: all events of
// one key out of n keys, no events of the remaining keys, and one out of n events that have no key. The
// observer writes all warnings and errors.
func LogSampled(l *slog.Logger, n int) Observer {
	if n < 1 {
		panic(fmt.Sprintf("once: LogSampled: the number %d is not positive. Try: 1, which logs every event", n))
	}
	return logObserver{l: l, oneIn: uint64(n)}
}

// logObserver without a logger is the default of Config.Observer. It writes to the logger that slog.Default() returns at the
// moment of the event.
type logObserver struct {
	l     *slog.Logger
	oneIn uint64 // the sample of events below Warn; 0 and 1: all events
}

func (o logObserver) Observe(ctx context.Context, e Event) {
	l, level := o.l, levelOf(e)
	if l == nil {
		l = slog.Default()
	}
	if level < slog.LevelWarn && !o.samples(e) || !l.Enabled(ctx, level) {
		return
	}
	attrs := make([]slog.Attr, 0, 24)
	text := func(name, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(name, value))
		}
	}
	text("operation", e.Name)
	text("scope", e.Scope)
	text("idempotency_key", e.KeyHash)
	if !e.Fingerprint.isZero() {
		text("payload_hash", hex.EncodeToString(e.Fingerprint[1:9])) // without the version byte
	}
	if e.Outcome != "" {
		attrs = append(attrs, slog.String("outcome", string(e.Outcome)), slog.String("effect", e.Effect.String()))
	}
	text("from_state", e.From)
	text("to_state", e.To)
	text("error_code", errorCode(e))
	if e.Attempt.Number != 0 {
		attrs = append(attrs, slog.Int("attempt", e.Attempt.Number))
	}
	attrs = append(attrs, slog.Int("runs", e.Runs))
	text("request_id", e.Attempt.RequestID)
	text("correlation_id", e.Attempt.CorrelationID)
	text("trace_id", e.TraceID)
	if executed := traceparent.TraceID(e.Trace); executed != e.TraceID {
		text("executed_trace_id", executed)
	}
	if o.l != nil { // otherwise these times were not measured
		attrs = append(attrs, slog.Duration("acquire_wait", e.Acquire), slog.Duration("lock_wait", e.LockWait), slog.Duration("look_up", e.LookUp), slog.Duration("waited", e.Waited),
			slog.Duration("handler", e.Handler), slog.Duration("commit", e.Commit))
	}
	attrs = append(attrs, slog.Duration("total", e.Total))
	if e.Err != nil {
		attrs = append(attrs, slog.Any("error", e.Err))
	}
	l.LogAttrs(ctx, level, "once: "+string(e.Type), attrs...)
}

// samples reports whether e belongs to the sample that is written.
func (o logObserver) samples(e Event) bool {
	if o.oneIn <= 1 {
		return true
	}
	n, err := strconv.ParseUint(e.KeyHash, 16, 64)
	if err != nil { // the call has no key
		n = rand.Uint64()
	}
	return n%o.oneIn == 0
}

// errorCode returns the name of the error: that of its cause, or else the code of the caller's error.
func errorCode(e Event) string {
	switch e.Outcome {
	case "", OutcomeExecuted, OutcomeReplayed, OutcomeDeclined, OutcomeNotStored:
		return e.Cause()
	}
	return cmp.Or(e.Cause(), string(e.Outcome))
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
	case EventInDoubt, EventRerun, eventSlowHandler:
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
	if e.KeyHash == "" && (e.Outcome == OutcomeExecuted || e.Outcome == OutcomeNotStored) { // a transaction without an operation, such as that of an inbox, which logs its messages itself
		return slog.LevelDebug
	}
	return slog.LevelInfo
}
