package webhook

import (
	"context"
	"net/http"

	"github.com/oncelib/once/internal/base/instrument"
)

// RelayMetrics returns an observer that counts attempts by their result, endpoints that are disabled, and
// requests that could not be made because of this process or its network. The labels of the metrics contain
// neither endpoints nor tenants. Each counter is reported as 0 when the relay starts, so that a monitoring
// system sees the first disabled endpoint as an increase. Pass an onceprom.Metrics or an
// onceotel.Telemetry.
func RelayMetrics(to instrument.Recorder) RelayObserver { return relayMetrics{to} }

type relayMetrics struct{ to instrument.Recorder }

// counters has the counters of a relay, with the values of their label.
var counters = map[instrument.ID][]string{
	instrument.WebhookAttempts:    {string(EventDelivered), string(EventFailed), string(EventRanOut)},
	instrument.WebhookDisabled:    {string(DisabledByFailing), string(DisabledByGone)},
	instrument.WebhookOwnFailures: {ownResources, ownProxy, ownRoute, ownName},
}

// Observe implements [RelayObserver].
func (m relayMetrics) Observe(ctx context.Context, e RelayEvent) {
	switch e.Type { //nolint:exhaustive // the other events have no counter
	case EventTaken:
		// A counter must be 0 before its first event, so that a monitoring system sees an increase.
		for id, values := range counters {
			for _, value := range values {
				zero := instrument.One(id, value)
				zero.Value = 0
				m.to.Record(ctx, zero)
			}
		}
	case EventDelivered, EventFailed, EventRanOut:
		m.to.Record(ctx, instrument.One(instrument.WebhookAttempts, string(e.Type)))
	case EventDisabled:
		by := DisabledByFailing
		if e.Status == http.StatusGone {
			by = DisabledByGone
		}
		m.to.Record(ctx, instrument.One(instrument.WebhookDisabled, string(by)))
	case EventOurs:
		m.to.Record(ctx, instrument.One(instrument.WebhookOwnFailures, ownReason(e.Err)))
	}
}
