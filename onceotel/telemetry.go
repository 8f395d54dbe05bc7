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

// Config configures a [Telemetry]. The zero value is ready to use.
type Config struct {
	// TracerProvider makes the spans. Default: [otel.GetTracerProvider].
	TracerProvider trace.TracerProvider

	// MeterProvider makes the metrics. Default: [otel.GetMeterProvider].
	MeterProvider metric.MeterProvider

	// Gauges is a watch, which reads values such as the number of waiting messages from time to time.
	// Telemetry exports the last values of the watch as metrics of the MeterProvider. Default: nil, no
	// gauges.
	Gauges *gauge.Watch

	// Broker is the value of the attribute messaging.system in the spans of messages, as the semantic conventions spell it: "kafka", "nats",
	// "rabbitmq". Default: "once", which is right if messages are sent without a broker.
	Broker string

	// Propagator writes the trace context into the headers of requests of a retryhttp.Transport. Default: the headers traceparent and baggage.
	Propagator propagation.TextMapPropagator

	// Downstream says how the key of an operation is sent to the services that the handler of the operation calls. Default: KeyStays, the
	// key is not sent.
	Downstream Downstream

	// DownstreamKey returns the key that Downstream sends. The parameter ctx is the context with which [once.Do] was called. Default:
	// Event.KeyHash, the hash of the operation's key.
	DownstreamKey func(ctx context.Context, e once.Event) string
}

// Telemetry is an observer of engines that makes a span for each operation, and records metrics. Telemetry is also the tracer of relays,
// inboxes, sagas and other components: see package telemetry. All engines of a process can share one Telemetry.
type Telemetry struct {
	cfg    Config
	tracer trace.Tracer
	meter  *recorder
}

var (
	_ once.Tracer      = (*Telemetry)(nil)
	_ telemetry.Tracer = (*Telemetry)(nil)
)

// New returns a Telemetry. New returns an error if cfg.MeterProvider fails to make a metric.
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

// Trace returns the W3C traceparent of the span in ctx, or "" if ctx has no span. Set the field Trace of outbox.Config to the function Trace, and
// set the field Trace of once.Operation to a result of Trace.
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
	_, _ = hex.Decode(traceID[:], []byte(s[3:35])) // wire.Trace has checked that the digits are hexadecimal
	_, _ = hex.Decode(spanID[:], []byte(s[36:52]))
	_, _ = hex.Decode(flags[:], []byte(s[53:]))
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceID, SpanID: spanID, TraceFlags: trace.TraceFlags(flags[0]), Remote: true})
}

// links returns a link to the span of each stored traceparent, without duplicates.
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
