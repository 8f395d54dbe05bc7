package outbox

import (
	"context"

	"github.com/oncelib/once/internal/base/instrument"
)

// Metrics returns an observer that counts deliveries. Pass an onceprom.Metrics or an
// onceotel.Telemetry.
func Metrics(to instrument.Recorder) Observer { return metrics{to} }

type metrics struct{ to instrument.Recorder }

// Observe implements [Observer].
func (m metrics) Observe(ctx context.Context, e Event) {
	switch e.Type {
	case EventDelivered, EventFailed, EventUnavailable:
	case EventStopped:
		if e.Message.Topic == "" { // the event concerns a topic, not a message
			return
		}
	default:
		return
	}
	m.to.Record(ctx, instrument.One(instrument.OutboxDeliveries, e.Message.Topic, string(e.Type)))
}
