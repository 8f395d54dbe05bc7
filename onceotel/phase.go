package onceotel

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
)

// Attributes of the spans of phases.
const (
	phaseKey  = attribute.Key("once.phase")
	callsKey  = attribute.Key("once.phase.call") // whether the phase calls another service
	phaseSpan = "phase "
)

// PhaseStart implements [lease.Tracer]. PhaseStart starts a span with the name "phase {name}" for each phase that runs, as
// a child of the operation's span.
func (t *Telemetry) PhaseStart(ctx context.Context, p lease.Phase) (_ context.Context, end func(error)) {
	ctx, span := t.tracer.Start(ctx, phaseSpan+p.Name, trace.WithAttributes(phaseKey.String(p.Name), callsKey.Bool(p.Call)))
	return ctx, func(err error) {
		defer span.End()
		if err == nil {
			return
		}
		span.SetAttributes(semconv.ErrorType(err))
		failure := (*once.Failure)(nil)
		answered := errors.As(err, &failure) && !errors.Is(err, lease.ErrUnknown) // a failure may also be the reason why the outcome is unknown
		if answered || errors.Is(err, lease.ErrLost) {                            // another owner continues the operation
			return
		}
		span.SetStatus(codes.Error, err.Error())
	}
}
