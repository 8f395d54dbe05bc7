package outbox

import (
	"context"

	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/internal/base/gaugename"
)

// Gauges implements [gauge.Source]. Gauges returns the results of [Box.Backlog] and [Box.Topics] as values
// for metrics.
func (b *Box[TX]) Gauges(ctx context.Context) ([]gauge.Value, error) {
	l, err := b.Backlog(ctx)
	if err != nil {
		return nil, err
	}
	topics, err := b.Topics(ctx)
	if err != nil {
		return nil, err
	}
	values := []gauge.Value{
		{Name: gaugename.OutboxMessages, Number: float64(l.Messages)},
		{Name: gaugename.OutboxOldestAge, Number: l.Oldest.Seconds()},
		{Name: gaugename.OutboxFailingMessages, Number: float64(l.Failing)},
		{Name: gaugename.OutboxBlockedKeys, Number: float64(l.Blocked)},
	}
	oldest, states := 0.0, map[Wait]int{}
	for i := range topics {
		t := &topics[i]
		if !t.Ready.IsZero() {
			oldest = max(oldest, t.Now.Sub(t.Ready).Seconds())
		}
		seen := map[Wait]bool{} // a topic and its keys may be paused at the same time, and count once
		for _, w := range t.Waits {
			if !seen[w.For] {
				seen[w.For] = true
				states[w.For]++
			}
		}
	}
	values = append(values, gauge.Value{Name: gaugename.OutboxReadyOldestAge, Number: oldest})
	for _, w := range Waits() { // reasons without a topic are reported as 0, so that a graph shows 0 and not a gap
		values = append(values, gauge.Value{Name: gaugename.OutboxTopics, Label: string(w), Number: float64(states[w])})
	}
	return values, nil
}
