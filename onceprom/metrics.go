package onceprom

import (
	"context"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncelib/once"
	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/internal/base/instrument"
	"github.com/oncelib/once/internal/meter"
)

// Config configures [Metrics].
type Config struct {
	// Gauges is a watch, which reads values such as the number of waiting messages from time to time. Metrics exports
	// the last values of the watch. Default: nil, no gauges.
	Gauges *gauge.Watch

	// TraceID returns the id of the trace that ctx belongs to, for the exemplars of histograms. TraceID returns "" if ctx has no trace, or if the
	// trace is not sampled. If an id is too long for an exemplar, the id is not exported. Default: the id of the trace that is stored with the
	// operation, if the call that is measured has executed the operation.
	TraceID func(ctx context.Context) string
}

// Metrics is an observer of engines and a [prometheus.Collector]. One Metrics can observe any number of engines.
type Metrics struct {
	cfg        Config
	meter      meter.Meter
	counters   [len(instrument.All)]*counters
	histograms [len(instrument.All)]*histograms
	gauges     map[string]*prometheus.Desc
}

type (
	counters   = children[prometheus.Counter]
	histograms = children[prometheus.Observer]
)

var (
	_ once.Observer        = (*Metrics)(nil)
	_ prometheus.Collector = (*Metrics)(nil)
	_ instrument.Recorder  = (*Metrics)(nil)
)

// New returns a Metrics. Register the returned Metrics with a Prometheus registry.
func New(cfg Config) *Metrics {
	m := &Metrics{cfg: cfg, gauges: map[string]*prometheus.Desc{}}
	for i, in := range instrument.All {
		if in.Buckets == nil {
			vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: in.Name, Help: in.Help}, in.Labels)
			m.counters[i] = newChildren(vec, len(in.Labels), vec.WithLabelValues)
			continue
		}
		vec := prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: in.Name, Help: in.Help, Buckets: in.Buckets,
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
		}, in.Labels)
		m.histograms[i] = newChildren(vec, len(in.Labels), vec.WithLabelValues)
	}
	for _, in := range gauge.Instruments() {
		var labels []string
		if in.Label != "" {
			labels = []string{in.Label}
		}
		m.gauges[in.Name] = prometheus.NewDesc(in.Name, in.Help, labels, nil)
	}
	return m
}

// Observe implements [once.Observer].
func (m *Metrics) Observe(ctx context.Context, e once.Event) {
	m.meter.Operation(&e, func(v instrument.Measurement) { m.record(v, func() string { return m.traceID(ctx, &e) }) })
}

// Record records a measurement. The observers that outbox.Metrics, inbox.Metrics, saga.Metrics and retry.Metrics return call Record.
func (m *Metrics) Record(ctx context.Context, v instrument.Measurement) {
	m.record(m.meter.Bounded(v), func() string { return m.current(ctx) })
}

// record adds a measurement. trace is asked only for an exemplar.
func (m *Metrics) record(v instrument.Measurement, trace func() string) {
	if c := m.counters[v.ID]; c != nil {
		c.of(v.Labels).Add(v.Value)
		return
	}
	h := m.histograms[v.ID].of(v.Labels)
	if id := trace(); id != "" && len(id) <= maxTraceID && utf8.ValidString(id) { // otherwise the client library panics
		if x, ok := h.(prometheus.ExemplarObserver); ok {
			x.ObserveWithExemplar(v.Value, prometheus.Labels{traceLabel: id})
			return
		}
	}
	h.Observe(v.Value)
}

// maxTraceID is the room of an exemplar without the name of its label.
const maxTraceID = prometheus.ExemplarMaxRunes - len(traceLabel)

const traceLabel = "trace_id"

// current is the trace that ctx belongs to.
func (m *Metrics) current(ctx context.Context) string {
	if m.cfg.TraceID == nil {
		return ""
	}
	return m.cfg.TraceID(ctx)
}

// traceID is the trace of a call.
func (m *Metrics) traceID(ctx context.Context, e *once.Event) string {
	if m.cfg.TraceID != nil {
		return m.cfg.TraceID(ctx)
	}
	if e.Outcome != once.OutcomeExecuted && e.Outcome != once.OutcomeDeclined {
		return "" // the stored trace belongs to another call
	}
	return sampled(e.Trace)
}

// sampled returns the id in a W3C traceparent, if its trace is sampled.
func sampled(parent string) string {
	const id, flags = 3, 53 // where they begin in 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
	if len(parent) < flags+2 {
		return ""
	}
	if set, err := strconv.ParseUint(parent[flags:flags+2], 16, 8); err != nil || set&1 == 0 {
		return ""
	}
	return parent[id : id+32]
}

// Describe implements [prometheus.Collector].
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for i := range instrument.All {
		m.collector(i).Describe(to)
	}
	for _, d := range m.gauges {
		to <- d
	}
}

// Collect implements [prometheus.Collector]. For gauges, Collect takes the last values of the watch Config.Gauges, and
// does not read new values.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for i := range instrument.All {
		m.collector(i).Collect(to)
	}
	if m.cfg.Gauges == nil {
		return
	}
	grows := map[string]bool{}
	for _, in := range gauge.Instruments() {
		grows[in.Name] = in.Grows
	}
	for _, v := range m.cfg.Gauges.Values() {
		kind := prometheus.GaugeValue
		if grows[v.Name] {
			kind = prometheus.CounterValue
		}
		var labels []string
		if v.Label != "" {
			labels = []string{v.Label}
		}
		to <- prometheus.MustNewConstMetric(m.gauges[v.Name], kind, v.Number, labels...)
	}
}

func (m *Metrics) collector(i int) prometheus.Collector {
	if c := m.counters[i]; c != nil {
		return c
	}
	return m.histograms[i]
}

// children are the series of one instrument, found without building a list of labels for each event.
type children[C any] struct {
	prometheus.Collector

	labels int
	make   func(labels ...string) C

	mu    sync.RWMutex
	known map[[instrument.MaxLabels]string]C
}

func newChildren[C any](all prometheus.Collector, labels int, newChild func(labels ...string) C) *children[C] {
	return &children[C]{Collector: all, labels: labels, make: newChild, known: map[[instrument.MaxLabels]string]C{}}
}

// of returns the series with these values of the labels.
func (c *children[C]) of(values [instrument.MaxLabels]string) C {
	c.mu.RLock()
	child, ok := c.known[values]
	c.mu.RUnlock()
	if !ok {
		child = c.add(values)
	}
	return child
}

// add is a function of its own so that the values of an event stay on the stack.
func (c *children[C]) add(values [instrument.MaxLabels]string) C {
	c.mu.Lock()
	defer c.mu.Unlock()
	child, ok := c.known[values]
	if !ok {
		child = c.make(values[:c.labels]...)
		c.known[values] = child
	}
	return child
}
