package onceotel_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/oncelib/once/onceotel"
	"github.com/oncelib/once/store/memstore"
)

type tx = *memstore.Tx

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// telemetry is a Telemetry whose spans and instruments are kept in memory.
type telemetry struct {
	*onceotel.Telemetry

	t        *testing.T
	spans    *tracetest.InMemoryExporter
	provider *trace.TracerProvider
	reader   *sdkmetric.ManualReader
}

func newTelemetry(t *testing.T, cfg onceotel.Config, options ...trace.TracerProviderOption) *telemetry {
	t.Helper()
	tel := &telemetry{t: t, spans: tracetest.NewInMemoryExporter(), reader: sdkmetric.NewManualReader()}
	tel.provider = trace.NewTracerProvider(append(options, trace.WithSyncer(tel.spans))...)
	cfg.TracerProvider, cfg.MeterProvider = tel.provider, sdkmetric.NewMeterProvider(sdkmetric.WithReader(tel.reader))
	var err error
	tel.Telemetry, err = onceotel.New(cfg)
	must(t, err)
	return tel
}

// take returns the spans that have ended since the last time, in the order of their ends.
func (tel *telemetry) take() tracetest.SpanStubs {
	spans := tel.spans.GetSpans()
	tel.spans.Reset()
	return spans
}

// named returns the one span with a name.
func named(t *testing.T, spans tracetest.SpanStubs, name string) tracetest.SpanStub {
	t.Helper()
	var found tracetest.SpanStubs
	var names []string
	for _, s := range spans {
		names = append(names, s.Name)
		if s.Name == name {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d spans %q in %q", len(found), name, names)
	}
	return found[0]
}

// text is the value of an attribute, "" if there is none.
func text(attrs []attribute.KeyValue, key string) string {
	for _, a := range attrs {
		if string(a.Key) == key {
			return a.Value.String()
		}
	}
	return ""
}

// events are the names of the events of a span.
func events(s *tracetest.SpanStub) (names []string) {
	for _, e := range s.Events {
		names = append(names, e.Name)
	}
	return names
}

// numbers returns the instruments: counters and gauges by their value, histograms by their count.
func (tel *telemetry) numbers() map[string]float64 {
	tel.t.Helper()
	var all metricdata.ResourceMetrics
	must(tel.t, tel.reader.Collect(context.Background(), &all))
	numbers := map[string]float64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			add := func(set attribute.Set, v float64) {
				var labels []string
				for _, a := range set.ToSlice() {
					labels = append(labels, string(a.Key)+"="+a.Value.String())
				}
				slices.Sort(labels)
				numbers[m.Name+"{"+strings.Join(labels, ",")+"}"] = v
			}
			switch data := m.Data.(type) {
			case metricdata.Sum[float64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, p.Value)
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, float64(p.Count))
				}
			default:
				tel.t.Errorf("%s is %T", m.Name, data)
			}
		}
	}
	return numbers
}
