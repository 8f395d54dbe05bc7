package onceotel_test

import (
	"context"
	"errors"
	"testing"

	"go.opentelemetry.io/otel/codes"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/onceotel"
	"github.com/oncelib/once/store/memstore"
)

// TestPhasesAreChildren: the phases that a run of leased work has executed are children of its operation. One whose value is saved has no span.
func TestPhasesAreChildren(t *testing.T) {
	t.Parallel()
	tel, s := newTelemetry(t, onceotel.Config{}), memstore.New()
	e := once.New(lease.New(s, lease.Config{Tracer: tel}), once.Config{Observer: tel})
	var charge error
	do := func() error {
		_, err := once.Do(t.Context(), e, refund, func(ctx context.Context, run *lease.Run) (string, error) {
			_, err := lease.Tx(ctx, run, s, "reserve", func(ctx context.Context, tx tx) (string, error) {
				_, span := tel.provider.Tracer("driver").Start(ctx, "insert")
				span.End()
				return pay(ctx, tx)
			})
			if err != nil {
				return "", err
			}
			return lease.Call(ctx, run, "charge", func(context.Context, string) (string, error) { return "charged", charge }, lease.SafeToRepeat())
		})
		return err
	}
	charge = errors.New("timeout")
	if err := do(); err == nil {
		t.Fatal("no error")
	}
	spans := tel.take()
	operation, reserve, call, insert := named(t, spans, refund.Name), named(t, spans, "phase reserve"), named(t, spans, "phase charge"), named(t, spans, "insert")
	if reserve.Parent.SpanID() != operation.SpanContext.SpanID() || call.Parent.SpanID() != operation.SpanContext.SpanID() || insert.Parent.SpanID() != reserve.SpanContext.SpanID() {
		t.Error("phases are no children of the operation")
	}
	if reserve.Status.Code == codes.Error || text(reserve.Attributes, "once.phase") != "reserve" || text(reserve.Attributes, "once.phase.call") != "false" {
		t.Errorf("%v, %v", reserve.Status, reserve.Attributes)
	}
	if call.Status.Code != codes.Error || text(call.Attributes, "once.phase.call") != "true" {
		t.Errorf("%v, %v", call.Status, call.Attributes)
	}
	charge = nil
	must(t, do())
	if spans := tel.take(); len(spans) != 2 {
		t.Errorf("%d spans of the second run, want the call and the operation", len(spans))
	}
}
