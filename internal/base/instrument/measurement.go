package instrument

import (
	"context"
	"strings"
	"time"
)

// Measurement is one change of an instrument by one event: an increment of a counter, or a value of a histogram.
type Measurement struct {
	ID     ID
	Value  float64
	Labels [MaxLabels]string // the values, in the order of Instrument.Labels
}

// Recorder records measurements. The context may contain a trace.
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

// Underscored returns s in a form for a label: with underscores instead of spaces.
func Underscored(s string) string { return strings.ReplaceAll(s, " ", "_") }
