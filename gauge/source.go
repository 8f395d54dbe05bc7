package gauge

import "context"

// Value is one measured value of a gauge.
type Value struct {
	Name   string // the Name of one of [Instruments], such as "once_dead_letters"
	Label  string // the value of the gauge's label; "" if the gauge has no label
	Number float64
}

// Source measures the current values of gauges. The method Gauges may be called at any time, but only one call
// of the method runs at a time.
type Source interface {
	Gauges(ctx context.Context) ([]Value, error)
}

// Func is a function that implements [Source].
type Func func(ctx context.Context) ([]Value, error)

// Gauges implements [Source].
func (f Func) Gauges(ctx context.Context) ([]Value, error) { return f(ctx) }
