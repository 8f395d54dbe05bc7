// Package otlp sends traces and metrics to an OpenTelemetry collector. The SDK reads its own environment variables, such as
// OTEL_EXPORTER_OTLP_HEADERS and OTEL_TRACES_SAMPLER, too.
package otlp

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/onceotel"
	wiring "github.com/oncelib/once/telemetry"
)

const (
	metricsEvery = 5 * time.Second // so often because a demo is short
	flushTimeout = 5 * time.Second // a collector that does not answer does not hold up the end
	warnEvery    = time.Minute
)

// Start is a [telemetry.Exporter].
func Start(ctx context.Context, url, service string, log *slog.Logger, watch *gauge.Watch) (_ wiring.Tracer, flush func(), err error) {
	spans, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(url+"/v1/traces"))
	if err != nil {
		return nil, nil, err
	}
	points, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(url+"/v1/metrics"))
	if err != nil {
		return nil, nil, err
	}
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(attribute.String("service.name", service)), resource.WithFromEnv())
	if err != nil {
		return nil, nil, err
	}
	otel.SetErrorHandler(&exportErrors{log: log})
	// Spans are sent in the background, and dropped when 2048 of them wait: no request waits for the collector.
	tracers := trace.NewTracerProvider(trace.WithBatcher(spans), trace.WithResource(about))
	meters := metric.NewMeterProvider(metric.WithReader(metric.NewPeriodicReader(points, metric.WithInterval(metricsEvery))), metric.WithResource(about))
	tel, err := onceotel.New(onceotel.Config{TracerProvider: tracers, MeterProvider: meters, Gauges: watch})
	if err != nil {
		return nil, nil, err
	}
	return tel, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
		defer cancel()
		if err := errors.Join(tracers.Shutdown(ctx), meters.Shutdown(ctx)); err != nil {
			otel.Handle(err)
		}
	}, nil
}

// exportErrors logs what the exporters could not send, once a minute at most.
type exportErrors struct {
	log  *slog.Logger
	next atomic.Int64 // in Unix nanoseconds, when the next error is logged
}

// Handle implements [otel.ErrorHandler].
func (e *exportErrors) Handle(err error) {
	now := time.Now()
	next := e.next.Load()
	if now.UnixNano() < next || !e.next.CompareAndSwap(next, now.Add(warnEvery).UnixNano()) {
		return
	}
	e.log.Warn("traces and metrics are lost, and the service continues. Try: --otlp with the URL of a running collector", "error", err)
}
