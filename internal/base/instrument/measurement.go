package instrument

import (
	"context"
	"strings"
	"time"
)

// Measurement is an increment of a counter, or a value of a histogram, by one event.
type Measurement struct {
	ID     ID
	Value  float64
	Labels [MaxLabels]string // values, in the order of Instrument.Labels
}

// Recorder records measurements. The context may belong to a trace.
type Recorder interface {
	Record(ctx context.Context, m Measurement)
}

// One returns a measurement that adds one to a counter.
func One(id ID, labels ...string) (m Measurement) {
	m.ID, m.Value = id, 1
	copy(m.Labels[:], labels)
	return m
}

// Took returns a measurement of a duration.
func Took(id ID, d time.Duration, labels ...string) Measurement {
	m := One(id, labels...)
	m.Value = d.Seconds()
	return m
}

// Underscored returns a text of several words as the value of a label.
func Underscored(s string) string { return strings.ReplaceAll(s, " ", "_") }
