package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/oncelib/once/internal/sql/sqlitegroup"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/upkeep"
)

// The rows are found outside the transactions that delete them, because these transactions block all other writers of the
// file. Only the index is read, unless the rows are archived.
const (
	sqliteExpired = ` from once_operation
 where state = 2 and expires_at <= ` + sqliteNow + ` and expires_at >= ? order by expires_at limit ?`
	sqliteKept  = `select scope, key, expires_at, ` + sqliteColumns + sqliteExpired
	sqliteSwept = `select scope, key, null, expires_at` + sqliteExpired

	// Rows are deleted one by one, which is faster than a list of keys, and by the primary key instead of the index.
	sqliteDrop = `delete from once_operation where scope = ?1 and key = ?2 and +state = 2 and +expires_at <= ` + sqliteNow + ` and (?3 is null or claim = ?3)`
)

// A sweeper writes to the file for one part at a time, and then waits at the end of the queue. A part ends when a writer
// waits, but not before some rows are deleted. A row costs about 20 microseconds, and the transaction of a part costs
// about 100 microseconds.
//
// Each row is on a separate page. After each part a checkpoint runs, at the same time as requests. A smaller part makes
// the COMMITs of these requests wait for a shorter time.
const (
	sqliteLeast = 10
	sqliteMost  = 20
)

// sweepSQLite does a Sweep in several short transactions.
func (s *Store) sweepSQLite(ctx context.Context, req upkeep.Sweep) (all upkeep.Swept, err error) {
	query, scan := sqliteSwept, scanSwept
	if req.Archive != nil {
		query, scan = sqliteKept, scanExpired
	}
	expired, err := collectExpired(ctx, s.db, query, scan, req.After.UnixMilli(), req.Limit)
	if err != nil {
		return upkeep.Swept{}, s.notSwept(err)
	}
	found := expired.Rows
	all = upkeep.Swept{Mark: req.After, More: expired.More(req.Limit)}
	if len(found) == 0 {
		return all, nil
	}
	if req.Archive != nil {
		if err := req.Archive(ctx, found); err != nil {
			return upkeep.Swept{}, &store.Error{Kind: store.KindOther, Err: err}
		}
	}
	all.Mark = found[len(found)-1].At
	conn := s.file.Relaxed()
	defer conn.Close()
	for len(found) > 0 {
		part, err := s.sweepPart(ctx, conn, found[:min(len(found), sqliteMost)])
		if err != nil && all.Rows > 0 { // a later sweep deletes the rest
			all.More, all.Mark = true, found[0].At
			return all, nil
		}
		if err != nil {
			return upkeep.Swept{}, err
		}
		found = found[part.tried:]
		all.Rows += part.rows
		all.Held += part.held
		began := time.Now()
		conn.Checkpoint(ctx)
		select { // other processes do not wait in the queue, so they get as much time as the sweep
		case <-time.After(part.held - time.Since(began)):
		case <-ctx.Done(): // the next part returns the error of ctx
		}
	}
	return all, nil
}

// sweptPart is the result of one transaction of a sweep.
type sweptPart struct {
	tried, rows int
	held        time.Duration
}

// sweepPart deletes the first rows of part in a transaction, if they have not changed.
func (s *Store) sweepPart(ctx context.Context, conn *sqlitegroup.Relaxed, part []upkeep.Expired) (done sweptPart, err error) {
	done.held, err = conn.Run(ctx, sqliteDrop, func(ctx context.Context, drop *sql.Stmt) error {
		for _, e := range part {
			// A transaction costs as much as five rows. So a waiting writer ends the part only after sqliteLeast rows.
			if done.tried >= sqliteLeast && s.file.Waiting() {
				break
			}
			r, err := drop.ExecContext(ctx, e.Scope, e.Key, e.Nonce)
			if err != nil {
				return err
			}
			n, err := r.RowsAffected()
			if err != nil {
				return err
			}
			done.tried++
			done.rows += int(n)
		}
		return nil
	})
	committing := (*sqlitegroup.CommitError)(nil)
	switch {
	case err == nil:
		return done, nil
	case errors.As(err, &committing):
		return done, s.lost(committing.Err)
	}
	return done, s.down(err)
}
