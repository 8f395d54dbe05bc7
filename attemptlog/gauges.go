package attemptlog

import (
	"context"

	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/internal/base/gaugename"
)

// Gauges implements [gauge.Source]. Gauges returns one gauge: the number that
// [Log.Dropped] returns.
func (l *Log) Gauges(context.Context) ([]gauge.Value, error) {
	return []gauge.Value{{Name: gaugename.AttemptLogDropped, Number: float64(l.Dropped())}}, nil
}
