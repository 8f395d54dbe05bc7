package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// ErrBacklog says that messages with a key wait for their delivery, and that numbers are not moved before they are delivered.
var ErrBacklog = errors.New("outbox: messages with a key wait for their delivery. Try: once relay until once outbox list shows none, then the same again")

// Renumber moves the numbers of all keys forward, for a database that was restored from a backup: consumers have seen the numbers that
// followed, and would take new messages for repetitions. The next message of each key has the number after+1, also of a key of which this
// database knows nothing any more. after is the time of the database in milliseconds, so that it is greater each time, also after two restores of
// one backup; or the greatest number there is, if that is greater.
//
// Consumers with inbox.InOrder wait for the numbers in between until inbox.Inbox.Renumber says that there are none. Call it while the service does
// not run, after a relay has delivered what waits: the error is [ErrBacklog] if a message with a key does.
func (b *Box[TX]) Renumber(ctx context.Context, reason string) (after int64, err error) {
	if err := checkReason(reason); err != nil {
		return 0, err
	}
	err = b.db.Within(ctx, store.ReadCommitted, func(ctx context.Context, r sqlplane.Runner) error {
		// A write comes first: of two calls one waits here, and SQLite gives its lock to no reader that others have overtaken.
		if _, err := r.Exec(ctx, b.statement("update once_stream_start set seq = seq where id = 1")); err != nil {
			return err
		}
		waits := false
		if err := r.Query(ctx, b.statement("select 1 from once_outbox where seq > 0 limit 1"), func(sqlplane.Row) error { waits = true; return nil }); err != nil {
			return err
		}
		if waits {
			return ErrBacklog
		}
		var now time.Time
		var most, start int64
		const query = "select NOW, coalesce((select max(seq) from once_stream), 0), coalesce((select max(seq) from once_stream_start), 0)"
		if err := r.Query(ctx, b.statement(query), func(row sqlplane.Row) error { return row.Scan((*dialect.Time)(&now), &most, &start) }); err != nil {
			return err
		}
		after = max(now.UnixMilli(), most, start+1)
		for _, table := range []string{"once_stream_start", "once_stream"} {
			if _, err := r.Exec(ctx, b.statement("update "+table+" set seq = ?", after)); err != nil {
				return err
			}
		}
		return b.audit(ctx, r, "outbox renumber", "", "", reason, fmt.Sprintf("after %d", after))
	})
	return after, err
}

// Started returns the number after which [Box.Renumber] has last had all keys go on; 0 if it was never called.
func (b *Box[TX]) Started(ctx context.Context) (after int64, err error) {
	err = b.db.Pool().Query(ctx, b.statement("select seq from once_stream_start where id = 1"), func(row sqlplane.Row) error { return row.Scan(&after) })
	return after, err
}
