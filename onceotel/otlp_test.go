package onceotel_test

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	colmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/oncelib/once"
	"github.com/oncelib/once/onceotel"
	"github.com/oncelib/once/store/memstore"
)

// collector is a receiver of OTLP over HTTP.
type collector struct {
	mu      sync.Mutex
	spans   []*tracepb.Span
	metrics []*metricspb.Metric
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var reader io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		var err error
		if reader, err = gzip.NewReader(r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	body, err := io.ReadAll(reader)
	if err == nil {
		err = c.receive(r.URL.Path, body)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf") // an empty message: all was accepted
}

func (c *collector) receive(path string, body []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if path == "/v1/traces" {
		var req coltrace.ExportTraceServiceRequest
		if err := proto.Unmarshal(body, &req); err != nil {
			return err
		}
		for _, resource := range req.GetResourceSpans() {
			for _, scope := range resource.GetScopeSpans() {
				c.spans = append(c.spans, scope.GetSpans()...)
			}
		}
		return nil
	}
	var req colmetrics.ExportMetricsServiceRequest
	if err := proto.Unmarshal(body, &req); err != nil {
		return err
	}
	for _, resource := range req.GetResourceMetrics() {
		for _, scope := range resource.GetScopeMetrics() {
			c.metrics = append(c.metrics, scope.GetMetrics()...)
		}
	}
	return nil
}

// TestWhatIsSentByOTLP: the SDK's exporters send the spans of an execution and of its replay, with the link, and the instruments.
func TestWhatIsSentByOTLP(t *testing.T) {
	t.Parallel()
	c := new(collector)
	s := httptest.NewServer(c)
	t.Cleanup(s.Close)
	spans, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(s.URL+"/v1/traces"))
	must(t, err)
	metrics, err := otlpmetrichttp.New(t.Context(), otlpmetrichttp.WithEndpointURL(s.URL+"/v1/metrics"))
	must(t, err)
	tp := trace.NewTracerProvider(trace.WithBatcher(spans))
	mp := metric.NewMeterProvider(metric.WithReader(metric.NewPeriodicReader(metrics)))
	tel, err := onceotel.New(onceotel.Config{TracerProvider: tp, MeterProvider: mp})
	must(t, err)
	e := once.New(memstore.New(), once.Config{Observer: tel})
	for range 2 {
		_, err := once.Do(t.Context(), e, refund, pay)
		must(t, err)
	}
	must(t, tp.Shutdown(context.Background()))
	must(t, mp.Shutdown(context.Background()))

	if len(c.spans) != 2 || len(c.spans[1].GetLinks()) != 1 {
		t.Fatalf("%v", c.spans)
	}
	executed, replayed := c.spans[0], c.spans[1]
	if link := replayed.GetLinks()[0]; hex.EncodeToString(link.GetSpanId()) != hex.EncodeToString(executed.GetSpanId()) || hex.EncodeToString(link.GetTraceId()) != hex.EncodeToString(executed.GetTraceId()) {
		t.Errorf("the replay links to %v", link)
	}
	for i, decision := range []string{"new_execution", "db_hit"} {
		found := ""
		for _, a := range c.spans[i].GetAttributes() {
			if a.GetKey() == "once.decision" {
				found = a.GetValue().GetStringValue()
			}
		}
		if found != decision || c.spans[i].GetName() != refund.Name {
			t.Errorf("span %d: %s, %q, want %q", i, c.spans[i].GetName(), found, decision)
		}
	}
	sum := 0.0
	for _, m := range c.metrics {
		if m.GetName() != "once.operations" {
			continue
		}
		for _, p := range m.GetSum().GetDataPoints() {
			sum += p.GetAsDouble()
		}
		if !m.GetSum().GetIsMonotonic() {
			t.Error("once.operations is no counter")
		}
	}
	if sum != 2 {
		t.Errorf("%v operations were sent", sum)
	}
}
