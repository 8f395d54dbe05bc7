package store

import (
	"context"
	"time"

	"github.com/oncelib/once/gauge"
)

// Backlog is what a store has beside the operations that are done and kept. Each number is at most [gauge.Most].
type Backlog struct {
	Running Count // under a lease, whether it is over or not; since they were first written
	Waiting Count // for their next owner; since they were first written
	Unknown Count // nothing tells their outcome; since they were first written
	Expired Count // their retention is over and they are not swept yet; since it was over
}

// Count is a number of operations, and for how long the oldest of them has been so, by the clock of the store.
type Count struct {
	Number int
	Oldest time.Duration // 0 if there are none
}

// Gauges returns what s has as values of package gauge. The stores' methods of this name call it.
func Gauges(ctx context.Context, s Backlogger) ([]gauge.Value, error) {
	b, err := s.Backlog(ctx)
	if err != nil {
		return nil, err //nolint:wrapcheck // it is of the store
	}
	return []gauge.Value{
		{Name: gauge.UnfinishedOperations, Number: float64(min(b.Running.Number+b.Waiting.Number, gauge.Most))},
		{Name: gauge.UnfinishedOldestAge, Number: max(b.Running.Oldest, b.Waiting.Oldest).Seconds()},
		{Name: gauge.UnknownOperations, Number: float64(b.Unknown.Number)}, {Name: gauge.UnknownOldestAge, Number: b.Unknown.Oldest.Seconds()},
		{Name: gauge.ExpiredOperations, Number: float64(b.Expired.Number)}, {Name: gauge.ExpiredOldestAge, Number: b.Expired.Oldest.Seconds()},
		{Name: gauge.WaitingOperations, Number: float64(b.Waiting.Number)}, {Name: gauge.WaitingOldestAge, Number: b.Waiting.Oldest.Seconds()},
	}, nil
}
