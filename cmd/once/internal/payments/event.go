package payments

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/upkeep"
)

// The topics of the events. Their key is the charge, so that the events of one charge are in order.
const (
	ChargesTopic = "charges"
	RefundsTopic = "refunds"
)

const refundSucceeded = "refund.succeeded"

// emitting is a transaction that adds events to an outbox.
type emitting[TX any] struct {
	queries

	tx  TX
	box *outbox.Box[TX]
}

func (e emitting[TX]) emit(ctx context.Context, m message.Message) error {
	return e.box.Add(ctx, e.tx, m)
}

type traceKey struct{}

// asTraced keeps the trace of a request for its events, so that their logs can be found by it.
func asTraced(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), traceKey{}, wire.Trace(r.Header[wire.TraceHeader])))
}

func traceOf(ctx context.Context) string {
	trace, _ := ctx.Value(traceKey{}).(string)
	return trace
}

// withEvents returns view with an outbox on s, or unchanged if events is false. It also returns the gauges of s and of the outbox.
func withEvents[TX any](s sqlplane.SQL[TX], view func(TX) queries, events bool) (func(TX) queries, []gauge.Source) {
	var gauges []gauge.Source
	if b, ok := s.(upkeep.Backlogger); ok {
		gauges = append(gauges, gauge.Operations(b))
	}
	if !events {
		return view, gauges
	}
	box := outbox.New(s, outbox.Config{Source: "/payments", Trace: traceOf})
	return func(tx TX) queries { return emitting[TX]{view(tx), tx, box} }, append(gauges, box, deadletter.New(s, deadletter.Config{}))
}

// emit adds an event about a charge to the transaction. It does nothing in a service without events.
func emit(ctx context.Context, tx queries, topic, kind, charge string, body any) error {
	e, ok := tx.(interface {
		emit(ctx context.Context, m message.Message) error
	})
	if !ok {
		return nil
	}
	payload, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return e.emit(ctx, message.Message{
		Topic: topic, Key: charge, Type: kind, Payload: payload,
		Headers: map[string]string{"content-type": "application/json"},
	})
}
