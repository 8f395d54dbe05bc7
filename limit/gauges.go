package limit

import (
	"context"

	"github.com/oncelib/once/gauge"
)

// Gauges implements [gauge.Source] with [Limiter.State].
func (l *Limiter) Gauges(context.Context) ([]gauge.Value, error) {
	s := l.State()
	refused := func(reason string, n uint64) gauge.Value {
		return gauge.Value{Name: gauge.LimiterRefused, Label: reason, Number: float64(n)}
	}
	return []gauge.Value{
		{Name: gauge.LimiterRunning, Number: float64(s.Running)},
		{Name: gauge.LimiterWaiting, Number: float64(s.Waiting)},
		{Name: gauge.LimiterCapacity, Number: float64(s.Capacity)},
		refused("exceeded", s.Exceeded), refused("full", s.Full), refused("late", s.Late),
	}, nil
}
