package instrument

import (
	"cmp"
	"strings"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/base/hostname"
	"github.com/oncelib/once/internal/base/label"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/retry"
)

// Measurement is what an event adds to a counter, or a value of a histogram.
type Measurement struct {
	ID     ID
	Value  float64
	Labels [MaxLabels]string // values, in the order of Instrument.Labels
}

// Meter says what events add. It remembers the values of labels, of which each has a bounded number.
// Its zero value is ready to use.
type Meter struct {
	operations, destinations, topics, sources label.Set
}

// rare are counters that stand at 0 as soon as an operation is known: a server that has never seen a counter does
// not take its first value for an increase, and an alert would miss the first deadlock.
var rare = [...]ID{Retries, Reruns, Deadlocks, Mismatches, InDoubt, EffectsOutside}

// Operation calls record for each measurement of e.
func (m *Meter) Operation(e *once.Event, record func(Measurement)) {
	name, first := m.operations.Value(e.Name)
	if first {
		for _, id := range rare {
			zero := one(id, name)
			zero.Value = 0
			record(zero)
		}
	}
	switch e.Type {
	case once.EventRerun:
		record(one(Reruns, name))
	case once.EventInDoubt:
		record(one(InDoubt, name))
	case once.EventEffectOutsideTx:
		record(one(EffectsOutside, name))
	case once.EventSettled:
		effect := once.EffectApplied
		if e.Err != nil {
			effect = once.EffectNotApplied
		}
		record(one(Settled, name, effectOf(effect)))
	case once.EventFinished:
		finished(e, name, record)
	default:
		return
	}
	if e.Deadlock {
		record(one(Deadlocks, name))
	}
}

// finished is the measurements of a call that has ended.
func finished(e *once.Event, name string, record func(Measurement)) {
	decision := DecisionOf(e)
	record(one(Operations, name, string(decision), effectOf(e.Effect)))
	if e.Attempt.Number > 1 {
		record(one(Retries, name))
	}
	if decision == DecisionMismatch {
		record(one(Mismatches, name))
	}
	record(took(OperationDuration, e.Total, name, string(decision)))
	if e.Runs > 0 {
		record(took(HandlerDuration, e.Handler, name))
	}
	// What a call has not done took no time at all, and would hide how long others have waited.
	for _, d := range [...]struct {
		id   ID
		took time.Duration
	}{{AcquireWait, e.Acquire}, {LockWait, e.LockWait}, {CommitDuration, e.Commit}} {
		if d.took > 0 {
			record(took(d.id, d.took, name))
		}
	}
}

// Outbox calls record for each measurement of e.
func (m *Meter) Outbox(e *outbox.Event, record func(Measurement)) {
	switch e.Type {
	case outbox.EventDelivered, outbox.EventFailed, outbox.EventUnavailable:
	case outbox.EventStopped:
		if e.Message.Topic == "" { // a topic as a whole
			return
		}
	default:
		return
	}
	topic, _ := m.topics.Value(e.Message.Topic)
	record(one(OutboxDeliveries, topic, string(e.Type)))
}

// Inbox calls record for each measurement of e.
func (m *Meter) Inbox(e *inbox.Event, record func(Measurement)) {
	switch e.Type {
	case inbox.EventApplied, inbox.EventDuplicate, inbox.EventStale, inbox.EventParked, inbox.EventSkipped, inbox.EventDeadLettered, inbox.EventFailed, inbox.EventReusedSeq:
		source, _ := m.sources.Value(e.Message.Source)
		record(one(InboxMessages, source, string(e.Type)))
	}
}

// Outcomes of a call of the retry client.
const (
	CallSucceeded = "succeeded"
	CallRefused   = "refused"  // it got an answer that is final
	CallGivenUp   = "given_up" // its last attempt has failed, or it could make none
)

// Retry calls record for each measurement of e.
func (m *Meter) Retry(e *retry.Event, record func(Measurement)) {
	to, _ := m.destinations.Value(Destination(e.URL))
	if e.Type == retry.EventFailed {
		record(one(RetryAttempts, to, underscored(e.Class.String())))
		if e.Stop == "" {
			record(took(RetryDelay, e.Wait, to))
		}
	}
	switch {
	case !e.Final():
	case e.Type == retry.EventDone && e.Err == nil:
		record(one(RetryCalls, to, CallSucceeded))
	case e.Type == retry.EventDone, e.Stop == retry.ReasonPointless:
		record(one(RetryCalls, to, CallRefused))
	default:
		record(one(RetryCalls, to, CallGivenUp))
		record(one(RetrySuppressed, to, underscored(string(e.Stop))))
	}
}

// Destination is the name that retry.Budgets and breaker.Hosts have for the destination of url: its host.
func Destination(url string) string {
	return cmp.Or(hostname.OfURL(url), "(default)") // the name of the budget of what names none
}

// effectOf is the effect in one word.
func effectOf(e once.Effect) string { return underscored(e.String()) }

func underscored(s string) string { return strings.ReplaceAll(s, " ", "_") }

func one(id ID, labels ...string) (m Measurement) {
	m.ID, m.Value = id, 1
	copy(m.Labels[:], labels)
	return m
}

func took(id ID, d time.Duration, labels ...string) Measurement {
	m := one(id, labels...)
	m.Value = d.Seconds()
	return m
}
