package saga

import (
	"context"

	"github.com/oncelib/once/internal/base/instrument"
)

// Metrics returns an observer that counts how sagas have ended, and how often steps were tried again. Each
// counter is reported as 0 when the runner starts, so that a monitoring system sees the first stuck saga as an
// increase. Pass an onceprom.Metrics or an onceotel.Telemetry.
func Metrics(to instrument.Recorder) Observer { return metrics{to} }

type metrics struct{ to instrument.Recorder }

// Observe implements [Observer].
func (m metrics) Observe(ctx context.Context, e Event) {
	begin := func(id instrument.ID, label string) {
		zero := instrument.One(id, e.Saga, label)
		zero.Value = 0
		m.to.Record(ctx, zero)
	}
	switch e.Type { //nolint:exhaustive // the others are not counted // the other events are not counted
	case EventDefined:
		if e.Step != "" {
			begin(instrument.SagaRetries, e.Step)
			break
		}
		begin(instrument.SagaRetries, theFlow)
		for _, how := range []EventType{EventCompleted, EventCompensated, EventStuck} {
			begin(instrument.Sagas, string(how))
		}
	case EventCompleted, EventCompensated, EventStuck:
		m.to.Record(ctx, instrument.One(instrument.Sagas, e.Saga, string(e.Type)))
	case EventRetried: // without the key of the step, because each key would be a new series
		m.to.Record(ctx, instrument.One(instrument.SagaRetries, e.Saga, e.Step))
	}
}
