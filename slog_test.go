package once_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store/memstore"
)

func TestLogLineOfEachEvent(t *testing.T) {
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
				Name: "POST /refunds", Fingerprint: once.Fingerprint{1, 0xab, 2, 3, 4, 5, 6, 7, 8, 9}, From: "absent", To: "done",
				Attempt: once.Attempt{RequestID: "r", CorrelationID: "c", Number: 2}, TraceID: "4bf92f3577b34da6a3ce929d0e0e4736", Trace: traceparent,
				Runs: 1, LockWait: 1, Waited: 2, Handler: 3, Commit: 4, Total: 10 * time.Millisecond,
			},
			`level=INFO msg="once: finished" operation="POST /refunds" scope=acme idempotency_key=2c26b46b68ffc68f payload_hash=ab02030405060708 outcome=executed effect=applied from_state=absent to_state=done attempt=2 runs=1 request_id=r correlation_id=c trace_id=4bf92f3577b34da6a3ce929d0e0e4736 acquire_wait=0s lock_wait=1ns look_up=0s waited=2ns handler=3ns commit=4ns total=10ms`,
		},
		{
			once.Event{Type: once.EventInDoubt, Scope: "acme", Err: errors.New("cut")},
			`level=WARN msg="once: in_doubt" scope=acme runs=0 acquire_wait=0s lock_wait=0s look_up=0s waited=0s handler=0s commit=0s total=0s error=cut`,
		},
		{
			once.Event{Type: once.EventFinished, Outcome: once.OutcomeReplayed, Effect: once.EffectApplied, KeyHash: "2c26b46b68ffc68f", TraceID: "0000000000000000000000000000000a", Trace: traceparent},
			`level=INFO msg="once: finished" idempotency_key=2c26b46b68ffc68f outcome=replayed effect=applied runs=0 trace_id=0000000000000000000000000000000a executed_trace_id=4bf92f3577b34da6a3ce929d0e0e4736 acquire_wait=0s lock_wait=0s look_up=0s waited=0s handler=0s commit=0s total=0s`,
		},
		{ // without a key: a transaction of an inbox, for example
			once.Event{Type: once.EventFinished, Outcome: once.OutcomeExecuted, Effect: once.EffectApplied, Name: "inbox billing"},
			`level=DEBUG msg="once: finished" operation="inbox billing" outcome=executed effect=applied runs=0 acquire_wait=0s lock_wait=0s look_up=0s waited=0s handler=0s commit=0s total=0s`,
		},
		{
			once.Event{Type: once.EventFinished, Outcome: once.Outcome(once.CodeMismatch), Effect: once.EffectNotApplied},
			`level=WARN msg="once: finished" outcome=mismatch effect="not applied" error_code=mismatch runs=0 acquire_wait=0s lock_wait=0s look_up=0s waited=0s handler=0s commit=0s total=0s`,
		},
		{
			once.Event{Type: once.EventFinished, Outcome: once.Outcome(once.CodeFailed), Effect: once.EffectNotApplied, Err: sqlStateError("23505")},
			`level=WARN msg="once: finished" outcome=failed effect="not applied" error_code=23505 runs=0 acquire_wait=0s lock_wait=0s look_up=0s waited=0s handler=0s commit=0s total=0s error="no stock"`,
		},
	} {
		out.Reset()
		o.Observe(context.Background(), tt.e)
		if got := strings.TrimSpace(out.String()); got != tt.want {
			t.Errorf("%s\nwant %s", got, tt.want)
		}
	}
}

const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// sqlStateError is an error of a database.
type sqlStateError string

func (sqlStateError) Error() string      { return "no stock" }
func (s sqlStateError) SQLState() string { return string(s) }

// TestLogTellsTheCallAndWhatItReplays: a line has the trace of its own call, and that of the call that has executed,
// if it is another one.
func TestLogTellsTheCallAndWhatItReplays(t *testing.T) {
	var out bytes.Buffer
	e := once.New(memstore.New(), once.Config{Observer: once.Log(slog.New(slog.NewTextHandler(&out, nil)))})
	other := "00-00000000000000000000000000000abc-00f067aa0ba902b7-01"
	for _, trace := range []string{traceparent, other, "of a program"} {
		op := once.Operation{Scope: "acme", Key: "k", Fingerprint: once.FingerprintOf([]byte("10 EUR")), Attempt: once.Attempt{Trace: trace}}
		_, err := once.Do(t.Context(), e, op, charge("k"))
		must(t, err)
	}
	const first = "trace_id=4bf92f3577b34da6a3ce929d0e0e4736 "
	lines := strings.Split(out.String(), "\n")
	for i, want := range []string{" " + first, " trace_id=00000000000000000000000000000abc executed_" + first, " executed_" + first} {
		if !strings.Contains(lines[i], want) || strings.Count(lines[i], "trace_id") != strings.Count(want, "trace_id") {
			t.Errorf("%s\nwant %s", lines[i], want)
		}
		if hash := fmt.Sprintf("%x", once.FingerprintOf([]byte("10 EUR")))[2:18]; !strings.Contains(lines[i], " payload_hash="+hash+" ") {
			t.Errorf("%s\nwant the hash %s", lines[i], hash)
		}
	}
}

// TestSampledLogKeepsWarnings: what is in order is written of one key in n, of it all lines; what is not is always written.
func TestSampledLogKeepsWarnings(t *testing.T) {
	const n, keys = 10, 1000
	l := &levels{enabled: slog.LevelDebug}
	o := once.LogSampled(slog.New(l), n)
	written := func(e once.Event) int {
		before := l.written
		o.Observe(t.Context(), e)
		return l.written - before
	}
	sampled, unkeyed := 0, 0
	for i := range keys {
		hash := once.KeyHash(strconv.Itoa(i))
		lines := 0
		for _, e := range []once.Event{{Type: once.EventClaimed}, {Type: once.EventFinished, Outcome: once.OutcomeExecuted}, {Type: once.EventFinished, Outcome: once.OutcomeReplayed}} {
			e.KeyHash = hash
			lines += written(e)
		}
		if lines != 0 && lines != 3 {
			t.Errorf("%d of 3 lines of a key", lines)
		}
		sampled += lines / 3
		for _, e := range []once.Event{
			{Type: once.EventInDoubt}, {Type: once.EventEffectOutsideTx},
			{Type: once.EventFinished, Outcome: once.Outcome(once.CodeMismatch)}, {Type: once.EventFinished, Outcome: once.Outcome(once.CodeMisuse)},
		} {
			if e.KeyHash = hash; written(e) != 1 {
				t.Errorf("%s %s is not written", e.Type, e.Outcome)
			}
		}
		unkeyed += written(once.Event{Type: once.EventFinished, Outcome: once.OutcomeExecuted})
	}
	if sampled < keys/n/2 || sampled > keys/n*2 || unkeyed < keys/n/4 || unkeyed > keys/n*4 {
		t.Errorf("%d of %d keys and %d lines without a key, want about %d", sampled, keys, unkeyed, keys/n)
	}
	o = once.LogSampled(slog.New(l), 1)
	for i := range keys {
		if written(once.Event{Type: once.EventSettled, KeyHash: once.KeyHash(strconv.Itoa(i))}) != 1 {
			t.Fatal("one in 1 is not everything")
		}
	}
	defer func() {
		if p := fmt.Sprint(recover()); !strings.Contains(p, "Try: 1") {
			t.Error(p)
		}
	}()
	once.LogSampled(slog.New(l), 0)
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
		return once.Event{Type: once.EventFinished, KeyHash: "8254c329a92850f6", Outcome: o, Effect: e}
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
		{once.Event{Type: once.EventFinished, Outcome: once.OutcomeNotStored}, slog.LevelDebug}, // without a key
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
