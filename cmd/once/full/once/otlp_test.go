package main

import (
	"compress/gzip"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	colmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collector is a receiver of OTLP over HTTP.
type collector struct {
	mu      sync.Mutex
	spans   []*tracepb.Span
	metrics []*metricspb.Metric // of the last request
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var err error
	body := r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		body, err = gzip.NewReader(r.Body)
	}
	var text []byte
	if err == nil {
		text, err = io.ReadAll(body)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch traces, points := new(coltrace.ExportTraceServiceRequest), new(colmetrics.ExportMetricsServiceRequest); {
	case err != nil:
	case r.URL.Path == "/v1/traces":
		err = proto.Unmarshal(text, traces)
		for _, resource := range traces.GetResourceSpans() {
			for _, scope := range resource.GetScopeSpans() {
				c.spans = append(c.spans, scope.GetSpans()...)
			}
		}
	case r.URL.Path == "/v1/metrics":
		err, c.metrics = proto.Unmarshal(text, points), nil
		for _, resource := range points.GetResourceMetrics() {
			for _, scope := range resource.GetScopeMetrics() {
				c.metrics = append(c.metrics, scope.GetMetrics()...)
			}
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf") // an empty message: all was accepted
}

// TestServeSendsOTLP: when it has ended, a collector has a span of each call, beneath that of the caller, and the
// instruments.
func TestServeSendsOTLP(t *testing.T) {
	t.Parallel()
	c := new(collector)
	receiver := httptest.NewServer(c)
	defer receiver.Close()
	cmd, said := serving(t, nil, "--otlp", receiver.URL+"/")
	const traceID = "0af7651916cd43dd8448eb211c80319c"
	for range 2 {
		charge(t, said["serving"], "charge-1", "Traceparent", "00-"+traceID+"-b7ad6b7169203331-01")
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := 0
	for _, s := range c.spans {
		if s.GetName() != "POST /charges" {
			continue
		}
		calls++
		if trace, parent := hex.EncodeToString(s.GetTraceId()), hex.EncodeToString(s.GetParentSpanId()); trace != traceID || parent != "b7ad6b7169203331" {
			t.Errorf("span of trace %s, beneath %s", trace, parent)
		}
	}
	counted, gauges := 0.0, 0
	for _, m := range c.metrics {
		switch m.GetName() {
		case "once.operations":
			for _, p := range m.GetSum().GetDataPoints() {
				counted += p.GetAsDouble()
			}
		case "once.pool.connections":
			gauges++
		}
	}
	if calls != 2 || counted != 2 || gauges != 1 {
		t.Errorf("%d spans, %v operations, %d gauges of the pool", calls, counted, gauges)
	}
}

// TestServeWithoutCollector: where nothing listens, and where nothing answers, requests are served, the end comes, and
// one line tells of what is lost.
func TestServeWithoutCollector(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that the end of the connection is seen
		<-r.Context().Done()
	}))
	defer silent.Close()
	for _, url := range []string{gone.URL, silent.URL} {
		log, err := os.Create(filepath.Join(t.TempDir(), "log"))
		if err != nil {
			t.Fatal(err)
		}
		cmd, said := serving(t, log, "--otlp", url)
		for range 20 {
			charge(t, said["serving"], "k")
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		text, err := os.ReadFile(log.Name())
		if n := strings.Count(string(text), "traces and metrics are lost"); err != nil || n != 1 {
			t.Errorf("%d warnings, %v:\n%s", n, err, text)
		}
	}
	for args, try := range map[string]string{"--otlp 127.0.0.1:4318": "--otlp http://", "--otlp http://127.0.0.1:4318 --unsafe": "--otlp without"} {
		o := run(t, append([]string{"demo", "serve"}, strings.Fields(args)...)...).want(t, 2)
		if !strings.Contains(o.stderr, "\nTry: "+try) {
			t.Errorf("%s: %s", args, o.stderr)
		}
	}
}
