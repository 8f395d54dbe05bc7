package meter_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/base/instrument"
	"github.com/oncelib/once/internal/meter"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/retry"
)

// text is m as a line: name{labels} value.
func text(m instrument.Measurement) string {
	in := instrument.All[m.ID]
	return fmt.Sprintf("%s{%s} %v", strings.TrimPrefix(in.Name, "once_"), strings.Join(m.Labels[:len(in.Labels)], ","), m.Value)
}

// recorder is what records the measurements of a capability.
type recorder func(instrument.Measurement)

func (r recorder) Record(_ context.Context, m instrument.Measurement) { r(m) }

// measured is what one event adds.
func measured(event any) (lines []string) {
	var m meter.Meter
	add := func(v instrument.Measurement) { lines = append(lines, text(v)) }
	switch e := event.(type) {
	case once.Event:
		m.Operation(&once.Event{Type: once.EventClaimed, Name: e.Name}, func(instrument.Measurement) {}) // so that its name is known
		m.Operation(&e, add)
	case outbox.Event:
		outbox.Metrics(recorder(add)).Observe(context.Background(), e)
	case inbox.Event:
		inbox.Metrics(recorder(add)).Observe(context.Background(), e)
	case retry.Event:
		retry.Metrics(recorder(add))(context.Background(), e)
	}
	return lines
}

// TestMeasurementsOfEachEvent: what each event adds. What a call has not waited for is no measurement.
func TestMeasurementsOfEachEvent(t *testing.T) {
	down := errors.New("down")
	const second = time.Second
	pay := func(e once.Event) once.Event { e.Name = "pay"; return e }
	for _, tt := range []struct {
		event any
		want  []string
	}{
		{pay(once.Event{Type: once.EventClaimed}), nil},
		{pay(once.Event{Type: once.EventWaiting}), nil},
		{pay(once.Event{Type: once.EventRerun}), []string{"reruns_total{pay} 1"}},
		{pay(once.Event{Type: once.EventRerun, Deadlock: true}), []string{"reruns_total{pay} 1", "deadlocks_total{pay} 1"}},
		{pay(once.Event{Type: once.EventInDoubt}), []string{"in_doubt_total{pay} 1"}},
		{pay(once.Event{Type: once.EventSettled}), []string{"settled_total{pay,applied} 1"}},
		{pay(once.Event{Type: once.EventSettled, Err: down}), []string{"settled_total{pay,not_applied} 1"}},
		{once.Event{Type: once.EventEffectOutsideTx}, []string{"effects_outside_total{unnamed} 1"}},
		{
			pay(once.Event{
				Type: once.EventFinished, Outcome: once.OutcomeExecuted, Effect: once.EffectApplied, Runs: 1, Attempt: once.Attempt{Number: 2},
				Acquire: 1 * second, LockWait: 2 * second, Handler: 3 * second, Commit: 4 * second, Total: 10 * second,
			}),
			[]string{
				"operations_total{pay,new_execution,applied} 1", "retries_total{pay} 1", "operation_duration_seconds{pay,new_execution} 10", "handler_duration_seconds{pay} 3",
				"acquire_wait_seconds{pay} 1", "lock_wait_seconds{pay} 2", "commit_duration_seconds{pay} 4",
			},
		},
		{
			pay(once.Event{Type: once.EventFinished, Outcome: once.OutcomeReplayed, Cached: true, Effect: once.EffectApplied, Attempt: once.Attempt{Number: 1}}),
			[]string{"operations_total{pay,cache_hit,applied} 1", "operation_duration_seconds{pay,cache_hit} 0"},
		},
		{
			pay(once.Event{Type: once.EventFinished, Outcome: once.Outcome(once.CodeMismatch), Effect: once.EffectNotApplied}),
			[]string{"operations_total{pay,mismatch,not_applied} 1", "mismatches_total{pay} 1", "operation_duration_seconds{pay,mismatch} 0"},
		},
		{
			pay(once.Event{Type: once.EventFinished, Outcome: once.Outcome(once.CodeUnavailable)}),
			[]string{"operations_total{pay,unavailable,in_doubt} 1", "operation_duration_seconds{pay,unavailable} 0"},
		},
		{
			pay(once.Event{Type: once.EventFinished, Outcome: once.Outcome(once.CodeConflict), Effect: once.EffectNotApplied, Runs: 3, Deadlock: true}),
			[]string{"operations_total{pay,conflict_retry,not_applied} 1", "operation_duration_seconds{pay,conflict_retry} 0", "handler_duration_seconds{pay} 0", "deadlocks_total{pay} 1"},
		},

		{outbox.Event{Type: outbox.EventDelivered, Message: message.Message{Topic: "paid"}}, []string{"outbox_deliveries_total{paid,delivered} 1"}},
		{outbox.Event{Type: outbox.EventFailed, Message: message.Message{Topic: "paid"}}, []string{"outbox_deliveries_total{paid,failed} 1"}},
		{outbox.Event{Type: outbox.EventStopped, Message: message.Message{Topic: "paid"}}, []string{"outbox_deliveries_total{paid,stopped} 1"}},
		{outbox.Event{Type: outbox.EventUnavailable, Message: message.Message{Topic: "paid"}}, []string{"outbox_deliveries_total{paid,unavailable} 1"}},
		{outbox.Event{Type: outbox.EventStopped}, nil},
		{outbox.Event{Type: outbox.EventBacklog}, nil},

		{inbox.Event{Type: inbox.EventApplied, Message: message.Message{Source: "shop"}}, []string{"inbox_messages_total{shop,applied} 1"}},
		{inbox.Event{Type: inbox.EventDeadLettered, Message: message.Message{Source: "shop"}}, []string{"inbox_messages_total{shop,dead_lettered} 1"}},
		{inbox.Event{Type: inbox.EventReusedSeq, Message: message.Message{Source: "shop"}}, []string{"inbox_messages_total{shop,reused_seq} 1"}},
		{inbox.Event{Type: inbox.EventGap}, nil},

		{
			retry.Event{Type: retry.EventFailed, Class: retry.ClassInFlight, Wait: second, URL: "https://API.example.com:443/v1?x"},
			[]string{"retry_attempts_total{api.example.com,in_flight} 1", "retry_delay_seconds{api.example.com} 1"},
		},
		{
			retry.Event{Type: retry.EventFailed, Stop: retry.ReasonOverBudget},
			[]string{"retry_attempts_total{(default),unknown} 1", "retry_calls_total{(default),given_up} 1", "retry_suppressed_total{(default),over_budget} 1"},
		},
		{retry.Event{Type: retry.EventFailed, Class: retry.ClassFinal, Stop: retry.ReasonPointless}, []string{"retry_attempts_total{(default),final} 1", "retry_calls_total{(default),refused} 1"}},
		{retry.Event{Type: retry.EventDone}, []string{"retry_calls_total{(default),succeeded} 1"}},
		{retry.Event{Type: retry.EventDone, Err: down}, []string{"retry_calls_total{(default),refused} 1"}},
		{retry.Event{Type: retry.EventEnded, Stop: retry.ReasonOpen}, []string{"retry_calls_total{(default),given_up} 1", "retry_suppressed_total{(default),open} 1"}},
		{retry.Event{Type: retry.EventHedged}, nil},
	} {
		if got := measured(tt.event); !slices.Equal(got, tt.want) {
			t.Errorf("%+v:\n%q, want\n%q", tt.event, got, tt.want)
		}
	}
}

// TestMeasurementsAreBounded: names, topics, sources and destinations are at most 101 each, and keys and
// tenants are in none.
func TestMeasurementsAreBounded(t *testing.T) {
	var m meter.Meter
	series := map[string]bool{}
	add := func(v instrument.Measurement) {
		v.Value = 0
		series[text(v)] = true
	}
	bounded := recorder(func(v instrument.Measurement) { add(m.Bounded(v)) })
	for i := range 10_000 {
		s := strconv.Itoa(i)
		m.Operation(&once.Event{Type: once.EventRerun, Name: s, Scope: s, KeyHash: s}, add)
		outbox.Metrics(bounded).Observe(t.Context(), outbox.Event{Type: outbox.EventDelivered, Message: message.Message{Topic: s, Key: s}})
		inbox.Metrics(bounded).Observe(t.Context(), inbox.Event{Type: inbox.EventApplied, Message: message.Message{Source: s, Key: s}})
		retry.Metrics(bounded)(t.Context(), retry.Event{Type: retry.EventDone, URL: "https://" + s})
	}
	if n := len(series); n != 4*101+7*100 {
		t.Errorf("%d series, want 101 of each, and 100 of the other seven counters of operations that begin at 0", n)
	}
}

// TestRareCountersBeginAtZero: with the first event of an operation, so that the first deadlock is an increase.
func TestRareCountersBeginAtZero(t *testing.T) {
	var m meter.Meter
	for _, want := range []int{8, 0} {
		n := 0
		m.Operation(&once.Event{Type: once.EventClaimed, Name: "pay"}, func(v instrument.Measurement) {
			n++
			if v.Value != 0 || v.Labels[0] != "pay" {
				t.Errorf("%s", text(v))
			}
		})
		if n != want {
			t.Errorf("%d counters begin, want %d", n, want)
		}
	}
}

func TestMeasuringAllocatesNothing(t *testing.T) {
	var m meter.Meter
	sum := 0.0
	add := func(v instrument.Measurement) { sum += v.Value }
	e := once.Event{Type: once.EventFinished, Outcome: once.OutcomeExecuted, Effect: once.EffectApplied, Name: "pay", Runs: 1, Commit: 1}
	if n := testing.AllocsPerRun(100, func() { m.Operation(&e, add) }); n > 0 || sum == 0 {
		t.Errorf("%v allocations, sum %v", n, sum)
	}
}

// TestInstrumentsHaveUniqueNames: names are those of Prometheus and of OpenTelemetry, each once, and no label tells whom a call was for.
func TestInstrumentsHaveUniqueNames(t *testing.T) {
	seen := map[string]bool{}
	allowed := []string{"operation", "decision", "effect", "destination", "class", "outcome", "reason", "topic", "source", "result", "saga", "step"}
	for _, in := range instrument.All {
		if seen[in.Name] || seen[in.OTel] || in.Help == "" || in.Unit == "" || !strings.HasPrefix(in.Name, "once_") || !strings.HasPrefix(in.OTel, "once.") {
			t.Errorf("%+v", in)
		}
		seen[in.Name], seen[in.OTel] = true, true
		if counts := in.Buckets == nil; counts != strings.HasSuffix(in.Name, "_total") || !counts != (in.Unit == "s") || !counts != strings.HasSuffix(in.Name, "_seconds") {
			t.Errorf("%s: unit %s, %d buckets", in.Name, in.Unit, len(in.Buckets))
		}
		if len(in.Labels) == 0 || len(in.Labels) > instrument.MaxLabels || !slices.IsSorted(in.Buckets) {
			t.Errorf("%s: %v, %v", in.Name, in.Labels, in.Buckets)
		}
		for _, l := range in.Labels {
			if !slices.Contains(allowed, l) {
				t.Errorf("%s has the label %s", in.Name, l)
			}
		}
	}
}
