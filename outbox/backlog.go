package outbox

import (
	"context"
	"strconv"
	"time"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// Backlog returns the number of messages that wait for delivery, and the age of the oldest waiting message.
func (b *Box[TX]) Backlog(ctx context.Context) (Backlog, error) {
	return readBacklog(ctx, b.db, mostCounted)
}

// BacklogUpTo is like [Box.Backlog], but stops each count at the number most. BacklogUpTo reads at most about
// 4 × most rows, but always at least one row in each of the parts into which the outbox is divided.
func (b *Box[TX]) BacklogUpTo(ctx context.Context, most int) (Backlog, error) {
	return readBacklog(ctx, b.db, min(most, mostCounted))
}

const mostCounted = 100_000

// oldest selects the time at which the oldest message was added. On PostgreSQL the statement looks into each
// part, because no index has the ids of all parts in one order.
var oldest = map[sqlplane.Dialect]string{
	sqlplane.PostgreSQL: `select min(o.created_at) from generate_series(0, ` + strconv.Itoa(parts-1) + `) p
  cross join lateral (select created_at from once_outbox where part = p order by id limit 1) o`,
	sqlplane.SQLite: "select created_at from once_outbox order by id limit 1",
	sqlplane.MySQL:  "select created_at from once_outbox order by id limit 1",
}

// oldestSnapshot selects the start of the oldest transaction that keeps PostgreSQL from removing dead rows.
var oldestSnapshot = map[sqlplane.Dialect]string{
	sqlplane.PostgreSQL: `select min(xact_start) from pg_stat_activity
 where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid() and (backend_xmin is not null or backend_xid is not null)`,
	sqlplane.SQLite: "null",
	sqlplane.MySQL:  "null",
}

func readBacklog(ctx context.Context, db sqlplane.Database, most int) (b Backlog, err error) {
	d, limit := db.Dialect(), "limit "+strconv.Itoa(most)
	query := store.Statement{SQL: dialect.Text(d, `select (select count(*) from (select 1 from once_outbox `+limit+`) o),
  (select count(next_at) from (select next_at from once_outbox_failed `+limit+`) f), (select count(*) from (select 1 from once_outbox_failed where next_at is null `+limit+`) s), NOW, (`+oldest[d]+`),
  (select count(*) from (select distinct topic, KEY from (select topic, KEY from once_outbox_failed where KEY <> '' `+limit+`) b) k), (`+oldestSnapshot[d]+`)`)}
	var now, added, began time.Time
	err = db.Pool().Query(ctx, query, func(row sqlplane.Row) error {
		return row.Scan(&b.Messages, &b.Failing, &b.Stopped, (*dialect.Time)(&now), (*dialect.Time)(&added), &b.Blocked, (*dialect.Time)(&began))
	})
	if !added.IsZero() {
		b.Oldest = max(now.Sub(added), 1) // 0 would mean that no message waits
	}
	// A zero time means that no such transaction exists.
	if !began.IsZero() {
		b.OldestSnapshot = max(now.Sub(began), 1)
	}
	return b, err
}
