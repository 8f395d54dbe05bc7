package inbox

import (
	"context"

	"github.com/oncelib/once/internal/base/instrument"
)

// Metrics returns an observer that counts messages. Usually, pass an onceprom.Metrics. If you use
// onceotel.Telemetry, call the method Telemetry.Inbox instead of Metrics, because Telemetry.Inbox also makes
// spans.
func Metrics(to instrument.Recorder) Observer { return metrics{to} }

type metrics struct{ to instrument.Recorder }

// Observe implements [Observer].
func (m metrics) Observe(ctx context.Context, e Event) {
	switch e.Type {
	case EventApplied, EventDuplicate, EventStale, EventParked, EventSkipped, EventDeadLettered, EventFailed, EventReusedSeq:
		m.to.Record(ctx, instrument.One(instrument.InboxMessages, e.Message.Source, string(e.Type)))
	}
}
