package onceotel

import (
	"context"
	"errors"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/oncelib/once"
	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/internal/base/instrument"
	"github.com/oncelib/once/internal/meter"
)

// recorder records the measurements of events.
type recorder struct {
	measures   meter.Meter
	counters   [len(instrument.All)]metric.Float64Counter // a counter, or else a histogram
	histograms [len(instrument.All)]metric.Float64Histogram

	mu     sync.RWMutex
	labels map[series]*options // measures bounds the number of entries
}

// series is an instrument with the values of its labels.
type series struct {
	id     instrument.ID
	values [instrument.MaxLabels]string
}

// options are the options for a series. They are made once, because each measurement needs them.
type options struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

func newRecorder(from metric.Meter) (*recorder, error) {
	m := &recorder{labels: map[series]*options{}}
	var errs []error
	for id, in := range instrument.All {
		var err error
		if in.Buckets == nil {
			m.counters[id], err = from.Float64Counter(in.OTel, metric.WithUnit(in.Unit), metric.WithDescription(in.Help))
		} else {
			m.histograms[id], err = from.Float64Histogram(in.OTel, metric.WithUnit(in.Unit), metric.WithDescription(in.Help), metric.WithExplicitBucketBoundaries(in.Buckets...))
		}
		errs = append(errs, err)
	}
	return m, errors.Join(errs...)
}

// record records a measurement. The context has the trace that exemplars refer to.
func (m *recorder) record(ctx context.Context, v *instrument.Measurement) {
	o := m.optionsOf(series{v.ID, v.Labels})
	if h := m.histograms[v.ID]; h != nil {
		h.Record(ctx, v.Value, o.record...)
		return
	}
	m.counters[v.ID].Add(ctx, v.Value, o.add...)
}

func (m *recorder) optionsOf(s series) *options {
	m.mu.RLock()
	o := m.labels[s]
	m.mu.RUnlock()
	if o != nil {
		return o
	}
	var attrs []attribute.KeyValue
	for i, label := range instrument.All[s.id].Labels {
		attrs = append(attrs, attribute.String(label, s.values[i]))
	}
	of := metric.WithAttributeSet(attribute.NewSet(attrs...))
	o = &options{[]metric.AddOption{of}, []metric.RecordOption{of}}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.labels[s] = o
	return o
}

func (m *recorder) operation(ctx context.Context, e *once.Event) {
	m.measures.Operation(e, func(v instrument.Measurement) { m.record(ctx, &v) })
}

// Record records a measurement. Record is called by the observers of outbox.Metrics, inbox.Metrics, saga.Metrics and retry.Metrics.
func (t *Telemetry) Record(ctx context.Context, v instrument.Measurement) {
	v = t.meter.measures.Bounded(v)
	t.meter.record(ctx, &v)
}

// observeGauges makes the instruments of the gauges. They export the last values of a watch, and call no source.
func observeGauges(from metric.Meter, watch *gauge.Watch) error {
	type observable struct {
		metric.Float64Observable
		label string
	}
	byName := map[string]observable{}
	var all []metric.Observable
	for _, in := range gauge.Instruments() {
		var o metric.Float64Observable
		var err error
		if in.Grows {
			o, err = from.Float64ObservableCounter(in.OTel, metric.WithUnit(in.Unit), metric.WithDescription(in.Help))
		} else {
			o, err = from.Float64ObservableGauge(in.OTel, metric.WithUnit(in.Unit), metric.WithDescription(in.Help))
		}
		if err != nil {
			return err
		}
		byName[in.Name] = observable{o, in.Label}
		all = append(all, o)
	}
	_, err := from.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		for _, v := range watch.Values() {
			var attrs []attribute.KeyValue
			o := byName[v.Name]
			if o.label != "" {
				attrs = append(attrs, attribute.String(o.label, v.Label))
			}
			to.ObserveFloat64(o.Float64Observable, v.Number, metric.WithAttributes(attrs...))
		}
		return nil
	}, all...)
	return err
}
