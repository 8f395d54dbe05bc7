package limit

import (
	"context"

	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/internal/base/gaugename"
)

// Gauges implements [gauge.Source]. Gauges returns the numbers in the result of [Limiter.State], as gauges.
func (l *Limiter) Gauges(context.Context) ([]gauge.Value, error) {
	s := l.State()
	refused := func(reason string, n uint64) gauge.Value {
		return gauge.Value{Name: gaugename.LimiterRefused, Label: reason, Number: float64(n)}
	}
	return []gauge.Value{
		{Name: gaugename.LimiterRunning, Number: float64(s.Running)},
		{Name: gaugename.LimiterWaiting, Number: float64(s.Waiting)},
		{Name: gaugename.LimiterCapacity, Number: float64(s.Capacity)},
		refused("exceeded", s.Exceeded), refused("full", s.Full), refused("late", s.Late),
	}, nil
}
