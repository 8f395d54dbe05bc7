package onceotel

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/oncelib/once"
	"github.com/oncelib/once/saga"
)

// Attributes of the spans of sagas.
const (
	sagaKey    = attribute.Key("once.saga")
	sagaStep   = attribute.Key("once.saga.step") // without the key of DoKey
	sagaResult = attribute.Key("once.saga.result")
)

// SagaTrace implements [saga.Tracer]. SagaTrace returns the traceparent of the span in
// ctx.
func (t *Telemetry) SagaTrace(ctx context.Context) string { return Trace(ctx) }

// SagaSpan implements [saga.Tracer]. SagaSpan starts a span with the name "saga {name}" for each run of a saga on a node. The child spans of a
// run have the names "step {name}", "undo {name}", "check {name}" and "cancel {name}". A run in the background, for which no caller waits, begins
// a new trace. The span of each run links to the span in which the saga was started, unless the span of the run is already a child of the span in
// which the saga was started.
func (t *Telemetry) SagaSpan(ctx context.Context, s saga.Span) (_ context.Context, end func(how string, err error)) {
	name, options := string(s.Kind)+" "+s.Step, []trace.SpanStartOption{trace.WithAttributes(sagaKey.String(s.Saga))}
	if s.Kind != saga.SpanRun {
		options = append(options, trace.WithAttributes(sagaStep.String(s.Step)))
	} else {
		name = "saga " + s.Saga
		options = append(options, trace.WithAttributes(keyHashKey.String(once.KeyHash(s.ID.Key))))
		if s.Background {
			options = append(options, trace.WithNewRoot())
		}
		if s.Background || s.Start != Trace(ctx) {
			options = append(options, trace.WithLinks(links(s.Start)...))
		}
	}
	ctx, span := t.tracer.Start(ctx, name, options...) //nolint:spancheck // the end that is returned ends it
	return ctx, func(how string, err error) {          //nolint:spancheck // so it does
		span.SetAttributes(sagaResult.String(how))
		if err != nil {
			span.SetAttributes(semconv.ErrorType(err))
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}
