package saga

import (
	"context"

	"github.com/oncelib/once/internal/base/instrument"
)

// Metrics returns an observer that counts how sagas have ended, and steps that were tried again. to is an onceprom.Metrics or an
// onceotel.Telemetry.
func Metrics(to instrument.Recorder) Observer { return metrics{to} }

type metrics struct{ to instrument.Recorder }

// Observe implements [Observer].
func (m metrics) Observe(ctx context.Context, e Event) {
	switch e.Type { //nolint:exhaustive // the others are not counted
	case EventCompleted, EventCompensated, EventStuck:
		m.to.Record(ctx, instrument.One(instrument.Sagas, e.Saga, string(e.Type)))
	case EventRetried: // a key of a step would be a series of its own
		m.to.Record(ctx, instrument.One(instrument.SagaRetries, e.Saga, e.Step))
	}
}
