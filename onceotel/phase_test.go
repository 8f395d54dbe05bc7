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
			_, err := lease.InTx(ctx, run, s, "reserve", func(ctx context.Context, tx tx) (string, error) {
				_, span := tel.provider.Tracer("driver").Start(ctx, "insert")
				span.End()
				return pay(ctx, tx)
			})
			if err != nil {
				return "", err
			}
			return lease.Call(ctx, run, "charge", func(context.Context, string) (string, error) { return "charged", charge }, lease.CallPolicy{SafeToRepeat: true})
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

// TestPhaseStatus: the span of a call that was refused is in order, and that of a call whose outcome is not known is an error, also
// if a failure is why nothing is known.
func TestPhaseStatus(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]codes.Code{"card_declined": codes.Unset, "PROVIDER.duplicate": codes.Error} {
		tel := newTelemetry(t, onceotel.Config{})
		e := once.New(lease.New(memstore.New(), lease.Config{Tracer: tel}), once.Config{Observer: tel})
		_, err := once.Do(t.Context(), e, refund, func(ctx context.Context, run *lease.Run) (string, error) {
			return lease.Call(ctx, run, "charge", func(context.Context, string) (string, error) { return "", &once.Failure{Code: code} }, lease.CallPolicy{})
		})
		if err == nil {
			t.Errorf("%s: no error", code)
		}
		if got := named(t, tel.take(), "phase charge").Status.Code; got != want {
			t.Errorf("%s: status %v, want %v", code, got, want)
		}
	}
}

// TestCompleterGoesOnInTheTrace: leased work whose caller has gone is finished in the trace of the call that began it.
func TestCompleterGoesOnInTheTrace(t *testing.T) {
	t.Parallel()
	tel := newTelemetry(t, onceotel.Config{})
	leases := lease.New(memstore.New(), lease.Config{})
	encrypter, err := once.NewEncrypter(make([]byte, 32))
	must(t, err)
	e := once.New(leases, once.Config{Observer: tel, Encrypter: encrypter})
	down := true // read by one run after the other
	do := func(ctx context.Context, op once.Operation) error {
		_, err := once.Do(ctx, e, op, func(ctx context.Context, run *lease.Run) (string, error) {
			return lease.Call(ctx, run, "charge", func(context.Context, string) (string, error) {
				if down {
					return "", errors.New("timeout")
				}
				return "charged", nil
			}, lease.CallPolicy{SafeToRepeat: true})
		})
		return err
	}
	op := refund
	op.Request = []byte("{}")
	if err := do(t.Context(), op); err == nil {
		t.Fatal("no error")
	}
	begun := named(t, tel.take(), refund.Name)
	down = false

	ctx, stop := context.WithCancel(t.Context())
	finished := make(chan error, 1)
	c := lease.Completer{Store: leases, Encrypter: encrypter, Every: lease.ShortestTTL, Handlers: lease.Handlers{refund.Name: func(ctx context.Context, op once.Operation) error {
		finished <- do(ctx, op)
		return nil
	}}}
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	must(t, <-finished)
	stop()
	must(t, <-ended)
	s := named(t, tel.take(), refund.Name)
	if s.SpanContext.TraceID() != begun.SpanContext.TraceID() || s.Parent.SpanID() != begun.SpanContext.SpanID() {
		t.Errorf("trace %v, parent %v, want %v, %v", s.SpanContext.TraceID(), s.Parent.SpanID(), begun.SpanContext.TraceID(), begun.SpanContext.SpanID())
	}
}
