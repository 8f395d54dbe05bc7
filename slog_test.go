package once_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
)

func TestLog(t *testing.T) {
	var out bytes.Buffer
	o := once.Log(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})))
	for _, tt := range []struct {
		e    once.Event
		want string
	}{
		{
			once.Event{
				Type: once.EventFinished, Outcome: once.OutcomeExecuted, Effect: once.EffectApplied, Scope: "acme", KeyHash: "2c26b46b68ffc68f",
				Caller: once.Caller{RequestID: "r", CorrelationID: "c", Attempt: 2},
				Runs:   1, LockWait: 1, Waited: 2, Handler: 3, Commit: 4, Total: 10 * time.Millisecond,
			},
			`level=INFO msg="once: finished" scope=acme key_hash=2c26b46b68ffc68f outcome=executed effect=applied request_id=r correlation_id=c attempt=2 runs=1 acquire=0s lock_wait=1ns look_up=0s waited=2ns handler=3ns commit=4ns total=10ms`,
		},
		{
			once.Event{Type: once.EventInDoubt, Scope: "acme", Err: errors.New("cut")},
			`level=WARN msg="once: in_doubt" scope=acme key_hash="" runs=0 acquire=0s lock_wait=0s look_up=0s waited=0s handler=0s commit=0s total=0s error=cut`,
		},
	} {
		out.Reset()
		o.Observe(context.Background(), tt.e)
		if got := strings.TrimSpace(out.String()); got != tt.want {
			t.Errorf("%s\nwant %s", got, tt.want)
		}
	}
}

// levels is a slog.Handler that keeps the level of the last record.
type levels struct {
	slog.Handler
	last    slog.Level
	enabled slog.Level
	written int
}

func (l *levels) Enabled(_ context.Context, v slog.Level) bool { return v >= l.enabled }
func (l *levels) Handle(_ context.Context, r slog.Record) error {
	l.last = r.Level
	l.written++
	return nil
}

func TestLogLevels(t *testing.T) {
	finished := func(o once.Outcome, e once.Effect) once.Event {
		return once.Event{Type: once.EventFinished, Outcome: o, Effect: e}
	}
	code := func(c once.Code, e once.Effect) once.Event { return finished(once.Outcome(c), e) }
	for _, tt := range []struct {
		e    once.Event
		want slog.Level
	}{
		{once.Event{Type: once.EventClaimed}, slog.LevelDebug},
		{once.Event{Type: once.EventWaiting}, slog.LevelDebug},
		{once.Event{Type: once.EventRerun}, slog.LevelWarn},
		{once.Event{Type: once.EventInDoubt}, slog.LevelWarn},
		{once.Event{Type: once.EventSettled}, slog.LevelInfo},
		{once.Event{Type: once.EventEffectOutsideTx}, slog.LevelError},
		{once.Event{Type: "of a later version"}, slog.LevelDebug},
		{finished(once.OutcomeExecuted, once.EffectApplied), slog.LevelInfo},
		{finished(once.OutcomeReplayed, once.EffectApplied), slog.LevelInfo},
		{finished(once.OutcomeDeclined, once.EffectApplied), slog.LevelInfo},
		{code(once.CodeInvalid, once.EffectNotApplied), slog.LevelInfo},
		{code(once.CodeInFlight, once.EffectNotApplied), slog.LevelInfo},
		{code(once.CodeStale, once.EffectNotApplied), slog.LevelInfo},
		{code(once.CodeMismatch, once.EffectNotApplied), slog.LevelWarn},
		{code(once.CodeFailed, once.EffectNotApplied), slog.LevelWarn},
		{code(once.CodeConflict, once.EffectNotApplied), slog.LevelWarn},
		{code(once.CodeNoResult, once.EffectApplied), slog.LevelWarn},
		{code(once.CodeUnavailable, once.EffectNotApplied), slog.LevelWarn},
		{code(once.CodeUnavailable, once.EffectInDoubt), slog.LevelError},
		{code(once.CodeUnknown, once.EffectInDoubt), slog.LevelError},
		{code(once.CodeAborted, once.EffectNotApplied), slog.LevelError},
		{code(once.CodeMisuse, once.EffectInDoubt), slog.LevelError},
	} {
		l := &levels{enabled: slog.LevelDebug}
		once.Log(slog.New(l)).Observe(context.Background(), tt.e)
		if l.written != 1 || l.last != tt.want {
			t.Errorf("%s %s: %s, want %s", tt.e.Type, tt.e.Outcome, l.last, tt.want)
		}
		l = &levels{enabled: tt.want + 1}
		once.Log(slog.New(l)).Observe(context.Background(), tt.e)
		if l.written != 0 {
			t.Errorf("%s %s: written, below the level", tt.e.Type, tt.e.Outcome)
		}
	}
}
