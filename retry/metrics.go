package retry

import (
	"cmp"
	"context"

	"github.com/oncelib/once/internal/base/hostname"
	"github.com/oncelib/once/internal/base/instrument"
)

// These are the outcomes of a call, as values of a label.
const (
	callSucceeded = "succeeded"
	callRefused   = "refused"  // the call got a final answer that is a failure
	callGivenUp   = "given_up" // the last attempt has failed, or no attempt was possible
)

// Metrics returns a function for [Policy].Observe that records metrics of calls and attempts. Pass an *onceprom.Metrics
// or an *onceotel.Telemetry.
func Metrics(to instrument.Recorder) func(context.Context, Event) {
	return func(ctx context.Context, e Event) {
		host := cmp.Or(hostname.OfURL(e.URL), shared.name) // the same name as in budgets and breakers
		if e.Type == EventFailed {
			to.Record(ctx, instrument.One(instrument.RetryAttempts, host, instrument.Underscored(e.Class.String())))
			if e.Stop == "" {
				to.Record(ctx, instrument.Took(instrument.RetryDelay, e.Wait, host))
			}
		}
		switch {
		case !e.Final():
		case e.Type == EventDone && e.Err == nil:
			to.Record(ctx, instrument.One(instrument.RetryCalls, host, callSucceeded))
		case e.Type == EventDone, e.Stop == ReasonPointless:
			to.Record(ctx, instrument.One(instrument.RetryCalls, host, callRefused))
		default:
			to.Record(ctx, instrument.One(instrument.RetryCalls, host, callGivenUp))
			to.Record(ctx, instrument.One(instrument.RetrySuppressed, host, instrument.Underscored(string(e.Stop))))
		}
	}
}
