package inbox

import (
	"context"
	"time"

	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/internal/base/gaugename"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/upkeep"
)

// age returns how long the message or partition has waited, or 0 if nothing waits.
func (w Waiting) age() time.Duration {
	if w.Since.IsZero() {
		return 0
	}
	return max(0, time.Since(w.Since)) // a clock that was set back must not give a negative age
}

// Gauges implements [gauge.Source]. Gauges returns the number of parked messages of the consumer (messages that
// wait in the database for an earlier message), the longest wait of a key, and the numbers Ready, Postponed,
// Paused and Hanging of [Inbox.Backlog].
func (in *Inbox[TX]) Gauges(ctx context.Context) ([]gauge.Value, error) {
	// Both limits keep the query fast when very many messages are parked.
	const query = `select (select count(*) from (select 1 from once_inbox_parked where consumer = ? limit ?) m), NOW,
 (select min(moved_at) from (select moved_at from once_inbox_position where consumer = ? and parked > 0 limit ?) p)`
	var parked int64
	var now, since time.Time
	err := in.db.Pool().Query(ctx, in.statement(query, in.cfg.Consumer, int64(upkeep.MaxBacklog), in.cfg.Consumer, int64(upkeep.MaxBacklog)), func(row sqlplane.Row) error {
		return row.Scan(&parked, (*dialect.Time)(&now), (*dialect.Time)(&since))
	})
	if err != nil {
		return nil, err
	}
	var age time.Duration
	if !since.IsZero() {
		age = max(0, now.Sub(since))
	}
	c := in.Backlog()
	return []gauge.Value{
		{Name: gaugename.ConsumerReadyMessages, Number: float64(c.Ready)},
		{Name: gaugename.ConsumerReadyOldestAge, Number: c.ReadyOldest.age().Seconds()},
		{Name: gaugename.ConsumerPostponedMessages, Number: float64(c.Postponed)},
		{Name: gaugename.ConsumerPostponedOldestAge, Number: c.PostponedOldest.age().Seconds()},
		{Name: gaugename.ConsumerPausedPartitions, Number: float64(c.Paused)},
		{Name: gaugename.ConsumerHangingHandlers, Number: float64(c.Hanging)},
		{Name: gaugename.InboxParkedMessages, Number: float64(parked)},
		{Name: gaugename.InboxParkedOldestAge, Number: age.Seconds()},
	}, nil
}
