package onceotel

import (
	"context"
	"encoding/hex"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/oncelib/once"
	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/telemetry"
)

// name is the instrumentation scope.
const name = "github.com/oncelib/once/onceotel"

// Config of a [Telemetry]. The zero value is a good one.
type Config struct {
	// TracerProvider makes the spans. Default: [otel.GetTracerProvider].
	TracerProvider trace.TracerProvider

	// MeterProvider makes the instruments. Default: [otel.GetMeterProvider].
	MeterProvider metric.MeterProvider

	// Gauges are exported by instruments of the MeterProvider, with their last values. Default: no gauges.
	Gauges *gauge.Watch

	// Broker is the messaging.system of messages, in the words of the semantic conventions: "kafka", "nats", "rabbitmq".
	// Default: "once", for messages that no broker carries.
	Broker string

	// Propagator writes the trace context into the requests of a retryhttp.Transport. Default: traceparent and baggage.
	Propagator propagation.TextMapPropagator

	// Downstream says how the key of an operation travels to the services that its handler calls. Default: it does not.
	Downstream Downstream

	// DownstreamKey returns the key that travels downstream. ctx is the context that [once.Do] was called with. Default: Event.KeyHash.
	DownstreamKey func(ctx context.Context, e once.Event) string
}

// Telemetry is an observer of an engine that makes a span for each operation, and records the instruments.
// It is the tracer of everything else: see package telemetry. It can be shared by all engines.
type Telemetry struct {
	cfg    Config
	tracer trace.Tracer
	meter  *recorder
}

var (
	_ once.Tracer      = (*Telemetry)(nil)
	_ telemetry.Tracer = (*Telemetry)(nil)
)

// New returns a Telemetry. An error comes from the MeterProvider.
func New(cfg Config) (*Telemetry, error) {
	if cfg.TracerProvider == nil {
		cfg.TracerProvider = otel.GetTracerProvider()
	}
	if cfg.MeterProvider == nil {
		cfg.MeterProvider = otel.GetMeterProvider()
	}
	if cfg.Propagator == nil {
		cfg.Propagator = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
	}
	if cfg.DownstreamKey == nil {
		cfg.DownstreamKey = func(_ context.Context, e once.Event) string { return e.KeyHash }
	}
	from := cfg.MeterProvider.Meter(name)
	m, err := newRecorder(from)
	if err == nil && cfg.Gauges != nil {
		err = observeGauges(from, cfg.Gauges)
	}
	if err != nil {
		return nil, fmt.Errorf("onceotel: New: %w", err)
	}
	return &Telemetry{cfg: cfg, tracer: cfg.TracerProvider.Tracer(name), meter: m}, nil
}

// Trace returns the W3C traceparent of the span in ctx, "" if ctx has no span. It is for outbox.Config.Trace and Attempt.Trace.
func Trace(ctx context.Context) string { return traceparent(trace.SpanContextFromContext(ctx)) }

// traceparent returns sc in the form that is stored with operations and messages.
func traceparent(sc trace.SpanContext) string {
	if !sc.IsValid() {
		return ""
	}
	traceID, spanID := sc.TraceID(), sc.SpanID()
	b := make([]byte, 0, 55)
	b = append(b, "00-"...)
	b = hex.AppendEncode(b, traceID[:])
	b = append(b, '-')
	b = hex.AppendEncode(b, spanID[:])
	if sc.IsSampled() {
		return string(append(b, "-01"...))
	}
	return string(append(b, "-00"...))
}

// spanContext returns the span context that a stored traceparent names. If the traceparent is malformed, it is not valid.
func spanContext(traceparent string) trace.SpanContext {
	s := wire.Trace([]string{traceparent})
	if s == "" {
		return trace.SpanContext{}
	}
	var traceID trace.TraceID
	var spanID trace.SpanID
	var flags [1]byte
	_, _ = hex.Decode(traceID[:], []byte(s[3:35])) // wire.Trace has seen that they are hexadecimal
	_, _ = hex.Decode(spanID[:], []byte(s[36:52]))
	_, _ = hex.Decode(flags[:], []byte(s[53:]))
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceID, SpanID: spanID, TraceFlags: trace.TraceFlags(flags[0]), Remote: true})
}

// links returns a link to each of the stored traceparents, without duplicates.
func links(traceparents ...string) (list []trace.Link) {
	seen := make(map[trace.SpanID]bool, len(traceparents))
	for _, t := range traceparents {
		if sc := spanContext(t); sc.IsValid() && !seen[sc.SpanID()] {
			seen[sc.SpanID()] = true
			list = append(list, trace.Link{SpanContext: sc})
		}
	}
	return list
}
