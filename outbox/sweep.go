package outbox

import (
	"context"
	"time"

	"github.com/oncelib/once/internal/base/sleep"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// How many delivered messages one statement deletes, and how often a relay looks for some.
const (
	sweepBatch = 1000
	sweepEvery = 15 * time.Second
)

// sweep deletes delivered messages that were kept for long enough, in the process that holds part 0, until ctx ends. It has a
// goroutine of its own: a long sweep delays nothing else.
func (r *Relay) sweep(ctx context.Context) {
	if r.keep == 0 {
		return
	}
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		held, done := r.holder.Use([]int{0})
		done()
		if len(held) == 0 {
			continue
		}
		if err := r.sweepSent(ctx); err != nil && ctx.Err() == nil {
			r.tell(ctx, Event{Type: EventDatabase, Err: err})
		}
	}
}

// sweepSent deletes messages that were delivered longer ago than RetainDelivered, the oldest first, until none is left: so they go as fast as
// they come. Between two statements it pauses for as long as the last one took, so that others have the database, too.
func (r *Relay) sweepSent(ctx context.Context) error {
	d := r.db.Dialect()
	s := store.Statement{SQL: dialect.Text(d, deleteSent[d]), Args: []any{r.keep.Microseconds(), int64(sweepBatch)}}
	for ctx.Err() == nil {
		var n int64
		began := time.Now()
		err := r.try(ctx, func(ctx context.Context) (err error) {
			n, err = r.db.Pool().Exec(ctx, s)
			return err
		})
		if err != nil || n < sweepBatch {
			return err
		}
		sleep.For(ctx, time.Since(began))
	}
	return nil
}

// deleteSent deletes what was delivered more than ? microseconds ago, at most ? rows. On PostgreSQL,
// relays that sweep at the same time do not wait for each other.
var deleteSent = map[sqlplane.Dialect]string{
	sqlplane.PostgreSQL: `with old as (
  select part, id from once_outbox_sent where sent_at < AGO(?) order by sent_at limit ? FOR UPDATE SKIP LOCKED)
 delete from once_outbox_sent s using old where s.part = old.part and s.id = old.id`,
	sqlplane.SQLite: "delete from once_outbox_sent where (part, id) in (select part, id from once_outbox_sent where sent_at < AGO(?) order by sent_at limit ?)",
	sqlplane.MySQL:  "delete from once_outbox_sent where sent_at < AGO(?) order by sent_at limit ?",
}
