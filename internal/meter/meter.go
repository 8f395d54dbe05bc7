// Package meter translates the events of the engine to measurements, for onceprom and onceotel. It also limits the values of all
// labels.
package meter

import (
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/instrument"
	"github.com/oncelib/once/internal/base/label"
)

// Meter remembers the values of labels that an application chooses, and limits the number of values of each label. Its zero
// value is ready to use.
type Meter struct {
	operations, destinations, topics, sources, sagas label.Set
}

// Bounded limits the values of the first label of a measurement from a package other than the engine.
func (m *Meter) Bounded(v instrument.Measurement) instrument.Measurement {
	set := &m.destinations
	switch instrument.All[v.ID].Labels[0] {
	case "result", "reason": // their values are constants
		return v
	case "topic":
		set = &m.topics
	case "source":
		set = &m.sources
	case "saga":
		set = &m.sagas
	}
	v.Labels[0], _ = set.Value(v.Labels[0])
	return v
}

// rare contains counters that are exported as 0 as soon as an operation is known. A metrics server does not treat the first
// value of a new counter as an increase, so an alert would miss the first deadlock.
var rare = [...]instrument.ID{
	instrument.Retries, instrument.Reruns, instrument.Deadlocks, instrument.Mismatches, instrument.InDoubt, instrument.EffectsOutside,
}

// Operation calls record for each measurement of the event e.
func (m *Meter) Operation(e *once.Event, record func(instrument.Measurement)) {
	name, first := m.operations.Value(e.Name)
	if first {
		for _, id := range rare {
			zero := instrument.One(id, name)
			zero.Value = 0
			record(zero)
		}
		for _, effect := range [...]once.Effect{once.EffectApplied, once.EffectNotApplied} {
			zero := instrument.One(instrument.Settled, name, effectOf(effect))
			zero.Value = 0
			record(zero)
		}
	}
	switch e.Type {
	case once.EventRerun:
		record(instrument.One(instrument.Reruns, name))
	case once.EventInDoubt:
		record(instrument.One(instrument.InDoubt, name))
	case once.EventEffectOutsideTx:
		record(instrument.One(instrument.EffectsOutside, name))
	case once.EventSettled:
		effect := once.EffectApplied
		if e.Err != nil {
			effect = once.EffectNotApplied
		}
		record(instrument.One(instrument.Settled, name, effectOf(effect)))
	case once.EventFinished:
		finished(e, name, record)
	default:
		return
	}
	if e.Deadlock {
		record(instrument.One(instrument.Deadlocks, name))
	}
}

// finished records the measurements of a call that has ended.
func finished(e *once.Event, name string, record func(instrument.Measurement)) {
	decision := DecisionOf(e)
	record(instrument.One(instrument.Operations, name, string(decision), effectOf(e.Effect)))
	if e.Attempt.Number > 1 {
		record(instrument.One(instrument.Retries, name))
	}
	if decision == DecisionMismatch {
		record(instrument.One(instrument.Mismatches, name))
	}
	record(instrument.Took(instrument.OperationDuration, e.Total, name, string(decision)))
	if e.Runs > 0 {
		record(instrument.Took(instrument.HandlerDuration, e.Handler, name))
	}
	// A step that the call has not made would be measured as 0, and would hide the waits of other calls.
	for _, d := range [...]struct {
		id   instrument.ID
		took time.Duration
	}{{instrument.AcquireWait, e.Acquire}, {instrument.LockWait, e.LockWait}, {instrument.CommitDuration, e.Commit}} {
		if d.took > 0 {
			record(instrument.Took(d.id, d.took, name))
		}
	}
}

// effectOf returns the effect as one word.
func effectOf(e once.Effect) string { return instrument.Underscored(e.String()) }
