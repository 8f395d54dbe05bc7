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

// ErrBacklog is the error of [Box.Renumber] if messages with a key still wait for their delivery. If the
// error is ErrBacklog, Renumber has changed nothing.
var ErrBacklog = errors.New("outbox: messages with a key still wait for their delivery. Try: run \"once relay\" until \"once outbox list\" shows no waiting message, and then renumber again")

// Renumber increases the sequence numbers that the next messages of all keys get. Call Renumber after the
// database was restored from a backup. Consumers may already have seen messages that were added after the
// backup. Without Renumber, new messages would get the sequence numbers of messages that consumers have seen,
// and consumers would treat the new messages as duplicates. The next message of each key gets the sequence
// number after+1, even if the restored database has no row for the key. The result after is the time of the
// database in milliseconds, or the greatest existing sequence number if this number is greater than the time. So
// if the same backup is restored a second time, Renumber returns a greater number than the first time.
//
// Consumers with inbox.InOrder wait for messages with the missing sequence numbers until inbox.Inbox.Renumber
// is called. Call Box.Renumber when a relay has delivered all waiting messages, and while the service is
// stopped. If a message with a key still waits for its delivery, the error is [ErrBacklog].
func (b *Box[TX]) Renumber(ctx context.Context, reason string) (after int64, err error) {
	if err := checkReason(reason); err != nil {
		return 0, err
	}
	err = b.db.Within(ctx, store.ReadCommitted, func(ctx context.Context, r sqlplane.Runner) error {
		// A write comes first: of two concurrent calls one waits here, and SQLite does not let a reader upgrade to a writer after another write.
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

// Started returns the number that the last call of [Box.Renumber] has returned, or 0 if Renumber was never
// called.
func (b *Box[TX]) Started(ctx context.Context) (after int64, err error) {
	err = b.db.Pool().Query(ctx, b.statement("select seq from once_stream_start where id = 1"), func(row sqlplane.Row) error { return row.Scan(&after) })
	return after, err
}
