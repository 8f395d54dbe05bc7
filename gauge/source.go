package gauge

import "context"

// Value is one measured number.
type Value struct {
	Name   string // such as "once_dead_letters": one of [Instruments]
	Label  string // the value of its label, if it has one
	Number float64
}

// Source measures the present values. Gauges may be called at any time, but not twice at the same time.
type Source interface {
	Gauges(ctx context.Context) ([]Value, error)
}

// Func is a function that is a [Source].
type Func func(ctx context.Context) ([]Value, error)

// Gauges implements [Source].
func (f Func) Gauges(ctx context.Context) ([]Value, error) { return f(ctx) }
