package outbox

import (
	"context"

	"github.com/oncelib/once/gauge"
)

// Gauges implements [gauge.Source] with [Box.Backlog].
func (b *Box[TX]) Gauges(ctx context.Context) ([]gauge.Value, error) {
	l, err := b.Backlog(ctx)
	if err != nil {
		return nil, err
	}
	return []gauge.Value{
		{Name: gauge.OutboxMessages, Number: float64(l.Messages)},
		{Name: gauge.OutboxOldestAge, Number: l.Oldest.Seconds()},
		{Name: gauge.OutboxFailingMessages, Number: float64(l.Failing)},
		{Name: gauge.OutboxBlockedKeys, Number: float64(l.Blocked)},
	}, nil
}
