package onceotel_test

import (
	"context"
	"errors"
	"testing"

	"go.opentelemetry.io/otel/codes"

	"github.com/oncelib/once"
	"github.com/oncelib/once/onceotel"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store/memstore"
)

// stuckSagas is told of sagas that are stuck.
type stuckSagas chan saga.Event

func (c stuckSagas) Observe(_ context.Context, e saga.Event) {
	if e.Type == saga.EventStuck {
		c <- e
	}
}

// TestSagasAreSeen: a run that a caller waits for is in its trace, and one that a node has found has a trace of its own, which links to the
// start. Steps and undos are children of their run. A "no" is in order, and a failed call is not.
func TestSagasAreSeen(t *testing.T) {
	t.Parallel()
	tel, s := newTelemetry(t, onceotel.Config{}), memstore.New()
	reserve := saga.Tx("reserve", func(ctx context.Context, tx tx, in string) (string, error) {
		_, span := tel.provider.Tracer("driver").Start(ctx, "insert")
		span.End()
		return in, tx.Put("x", in)
	}).Undo(func(context.Context, tx, string, string) error { return nil })
	charge := saga.Call("charge", func(_ context.Context, _, in string) (string, error) {
		if in == "unknown" {
			return "", errors.New("timeout")
		}
		return "", &once.Failure{Code: "declined"}
	})
	order := saga.New("order", func(ctx saga.Context, in string) (string, error) {
		if _, err := reserve.DoKey(ctx, "secret", in); err != nil {
			return "", err
		}
		return charge.Do(ctx, in)
	}, reserve, charge)
	stuck := make(stuckSagas)
	r := saga.NewRunner[tx](s, saga.Config{Tracer: tel, Observer: stuck}, order)

	ctx, request := tel.provider.Tracer("http").Start(t.Context(), "POST /orders")
	if _, err := saga.Do(ctx, r, order, saga.ID{Key: "1"}, "1"); err == nil {
		t.Error("no error")
	}
	spans := tel.take()
	run, step, undo, insert := named(t, spans, "saga order"), named(t, spans, "step reserve"), named(t, spans, "undo reserve"), named(t, spans, "insert")
	if run.Parent.SpanID() != request.SpanContext().SpanID() || len(run.Links) > 0 || text(run.Attributes, "once.saga.result") != "compensated" {
		t.Errorf("run: parent %v, links %v, %v", run.Parent, run.Links, run.Attributes)
	}
	if step.Parent.SpanID() != run.SpanContext.SpanID() || undo.Parent.SpanID() != run.SpanContext.SpanID() || insert.Parent.SpanID() != step.SpanContext.SpanID() {
		t.Error("steps are not in their run")
	}
	if refused := named(t, spans, "step charge"); refused.Status.Code != codes.Unset || text(refused.Attributes, "once.saga.result") != "no" || text(refused.Attributes, "once.saga.step") != "charge" {
		t.Errorf("step charge: %v, %v", refused.Status, refused.Attributes)
	}
	if text(run.Attributes, "once.saga") != "order" || text(run.Attributes, "once.key_hash") != once.KeyHash("1") {
		t.Errorf("%v", run.Attributes)
	}

	open := s.BeginTx()
	_, err := saga.Start(ctx, r, open, order, saga.ID{Key: "2"}, "unknown")
	must(t, errors.Join(err, open.Commit()))
	request.End()
	tel.take()
	background, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(background) }()
	<-stuck
	stop()
	must(t, <-ended)
	spans = tel.take()
	run = named(t, spans, "saga order")
	if run.Parent.IsValid() || len(run.Links) != 1 || run.Links[0].SpanContext.SpanID() != request.SpanContext().SpanID() {
		t.Errorf("run: parent %v, links %v, want a link to %v", run.Parent, run.Links, request.SpanContext())
	}
	failed := named(t, spans, "step charge")
	if failed.Status.Code != codes.Error || failed.SpanContext.TraceID() != run.SpanContext.TraceID() || run.Status.Code != codes.Error || text(run.Attributes, "once.saga.result") != "stuck" {
		t.Errorf("%v, %v; %v, %v", failed.Status, failed.Attributes, run.Status, run.Attributes)
	}
}
