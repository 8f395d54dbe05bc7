package onceotel

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/meter"
	"github.com/oncelib/once/store"
)

// These are attributes of spans that the semantic conventions do not define.
const (
	operationKey   = attribute.Key("once.operation")
	keyHashKey     = attribute.Key("once.key_hash")
	attemptKey     = attribute.Key("once.attempt")
	decisionKey    = attribute.Key("once.decision")
	effectKey      = attribute.Key("once.effect")
	runsKey        = attribute.Key("once.runs")
	acquireWaitKey = attribute.Key("once.acquire_wait_ms")
	lockWaitKey    = attribute.Key("once.lock_wait_ms")
	commitKey      = attribute.Key("once.commit_ms")
	errorKey       = attribute.Key("once.error")
)

// operation is the context of a call of the engine. Through it, Observe finds the span of the call: the innermost span of a context may belong
// to another observer.
type operation struct {
	context.Context //nolint:containedctx // it is a context itself

	of   *Telemetry
	span trace.Span
	key  string // the key to send downstream; "": none
	once.Attempt
}

// Value implements [context.Context].
func (o *operation) Value(key any) any {
	if key == o.of {
		return o
	}
	return o.Context.Value(key)
}

// operationOf returns the innermost operation that ctx belongs to, or nil.
func (t *Telemetry) operationOf(ctx context.Context) *operation {
	o, _ := ctx.Value(t).(*operation)
	return o
}

// TraceStart implements [once.Tracer]. TraceStart starts the span of an operation, and returns the traceparent of this span. The engine
// stores the traceparent with the operation.
func (t *Telemetry) TraceStart(ctx context.Context, e once.Event) (_ context.Context, traceparentToKeep string) {
	o := &operation{of: t, Attempt: e.Attempt}
	if t.cfg.Downstream != KeyStays && e.KeyHash != "" {
		o.key = t.cfg.DownstreamKey(ctx, e)
	}
	if e.Trace != "" && !trace.SpanContextFromContext(ctx).IsValid() { // without a span of the server, the caller's span is the parent
		ctx = trace.ContextWithRemoteSpanContext(ctx, spanContext(e.Trace))
	}
	ctx, o.span = t.tracer.Start(ctx, nameOf(e)) //nolint:spancheck // Observe ends it
	o.Context = t.withBaggage(ctx, o)
	return o, traceparent(o.span.SpanContext())
}

// Observe implements [once.Observer]. Observe writes the event to the span of the operation and to the metrics. The last event of an
// operation ends the span of the operation.
func (t *Telemetry) Observe(ctx context.Context, e once.Event) {
	t.meter.operation(ctx, &e)
	o := t.operationOf(ctx)
	if o == nil {
		return
	}
	finished := e.Type == once.EventFinished
	if finished {
		defer o.span.End()
	}
	switch {
	case !o.span.IsRecording():
	case finished:
		o.finish(&e)
	case e.Type == once.EventClaimed: // the last event says all that this event says
	default:
		attrs := []attribute.KeyValue{runsKey.Int(e.Runs)}
		if e.Type == once.EventSettled {
			attrs = append(attrs, effectKey.String(effectOf(&e)))
		}
		if e.Err != nil {
			attrs = append(attrs, errorKey.String(e.Err.Error()))
		}
		o.span.AddEvent("once."+string(e.Type), trace.WithAttributes(attrs...))
		if e.Type == once.EventEffectOutsideTx {
			o.span.SetStatus(codes.Error, e.Err.Error())
		}
	}
}

// finish writes the data of a call's last event.
func (o *operation) finish(e *once.Event) {
	attrs := make([]attribute.KeyValue, 0, 10)
	attrs = append(attrs, operationKey.String(nameOf(*e)), decisionKey.String(string(meter.DecisionOf(e))), effectKey.String(effectOf(e)),
		runsKey.Int(e.Runs), milliseconds(acquireWaitKey, e.Acquire), milliseconds(lockWaitKey, e.LockWait), milliseconds(commitKey, e.Commit))
	if e.KeyHash != "" {
		attrs = append(attrs, keyHashKey.String(e.KeyHash))
	}
	if e.Attempt.Number > 0 {
		attrs = append(attrs, attemptKey.Int(e.Attempt.Number))
	}
	switch e.Outcome {
	case once.OutcomeExecuted, once.OutcomeReplayed, once.OutcomeDeclined:
	default:
		attrs = append(attrs, semconv.ErrorTypeKey.String(string(e.Outcome)))
	}
	o.span.SetAttributes(attrs...)
	switch meter.DecisionOf(e) {
	case meter.DecisionDBHit, meter.DecisionCacheHit, meter.DecisionInFlight, meter.DecisionMismatch, meter.DecisionUnknown: // the stored trace belongs to another call
		if sc := spanContext(e.Trace); sc.IsValid() {
			o.span.AddLink(trace.Link{SpanContext: sc})
		}
	}
	if needsPerson(e) {
		o.span.SetStatus(codes.Error, text(e.Err))
	}
}

// needsPerson reports whether a person should look at the end of a call. [once.Log] writes such calls at level Error.
func needsPerson(e *once.Event) bool {
	switch once.Code(e.Outcome) {
	case once.CodeAborted, once.CodeMisuse, once.CodeUnknown:
		return true
	case once.CodeUnavailable:
		return e.Effect == once.EffectInDoubt || errors.Is(e.Err, store.ErrNotMigrated)
	}
	return false
}

func nameOf(e once.Event) string { return cmp.Or(e.Name, "unnamed") }

// effectOf returns the effect in the words that the instruments use.
func effectOf(e *once.Event) string { return strings.ReplaceAll(e.Effect.String(), " ", "_") }

func milliseconds(key attribute.Key, d time.Duration) attribute.KeyValue {
	return key.Float64(float64(d) / float64(time.Millisecond))
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
