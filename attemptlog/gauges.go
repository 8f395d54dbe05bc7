package attemptlog

import (
	"context"

	"github.com/oncelib/once/gauge"
)

// Gauges implements [gauge.Source] with [Log.Dropped].
func (l *Log) Gauges(context.Context) ([]gauge.Value, error) {
	return []gauge.Value{{Name: gauge.AttemptLogDropped, Number: float64(l.Dropped())}}, nil
}
