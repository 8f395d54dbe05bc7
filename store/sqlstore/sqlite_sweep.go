package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/oncelib/once/store"
)

// Rows are found outside of the transactions that delete them, which keep all other
// writers from the file. By the index alone, unless they are to be kept.
const (
	sqliteExpired = ` from once_operation
 where state = 2 and expires_at <= ` + nowMillis + ` and expires_at >= ? order by expires_at limit ?`
	sqliteKept  = `select scope, key, expires_at, ` + sqliteColumns + sqliteExpired
	sqliteSwept = `select scope, key, null, expires_at` + sqliteExpired

	// One by one, which is quicker than any list; by the primary key, and not by the index.
	sqliteDrop = `delete from once_operation where scope = ?1 and key = ?2 and +state = 2 and +expires_at <= ` + nowMillis + ` and (?3 is null or claim = ?3)`
)

// A sweeper has the file for a part at a time, which is much less than a millisecond, and
// then goes to the end of the line.
const (
	sqlitePart      = 10
	sqlitePartGroup = 25 // where each of them waits for the disk
)

// Each row was on a page of its own, which is in the log now. So the sweeper moves them to
// where they belong, before there are so many that the COMMIT of a request has to.
const sqliteMoves = 100

func (s *Store) sweepSQLite(ctx context.Context, req store.Sweep) (all store.Swept, err error) {
	query, scan := sqliteSwept, scanSwept
	if req.Keep != nil {
		query, scan = sqliteKept, scanExpired
	}
	found, err := collectExpired(ctx, s.db, query, scan, req.After.UnixMilli(), req.Limit)
	if err != nil {
		return store.Swept{}, s.notSwept(err)
	}
	all = store.Swept{Mark: req.After, More: len(found) >= req.Limit}
	if len(found) == 0 {
		return all, nil
	}
	if req.Keep != nil {
		if err := req.Keep(ctx, found); err != nil {
			return store.Swept{}, &store.Error{Kind: store.Other, Err: err}
		}
	}
	size := sqlitePart
	if s.writer != nil {
		size = sqlitePartGroup
	}
	var rest time.Duration
	for part := range slices.Chunk(found, size) {
		swept, err := s.sweepPart(ctx, part)
		if err != nil && all.Rows > 0 { // the rest is found again
			all.More, all.Mark = true, part[0].At
			return all, nil
		}
		if err != nil {
			return store.Swept{}, err
		}
		all.Rows += swept.Rows
		all.Held += swept.Held
		rest += swept.Held
		if s.moves.Add(int64(swept.Rows)) < sqliteMoves {
			continue
		}
		s.moves.Store(0)
		began := time.Now()
		s.checkpoint(ctx)
		select { // other processes do not stand in the line
		case <-time.After(rest - time.Since(began)):
		case <-ctx.Done(): // the next one says so
		}
		rest = 0
	}
	all.Mark = found[len(found)-1].At
	return all, nil
}

// sweepPart deletes rows that are still the same, in a transaction.
func (s *Store) sweepPart(ctx context.Context, part []store.Expired) (store.Swept, error) {
	var began time.Time
	swept, err := s.sweeping(ctx, sweeping{}, func(tx *sql.Tx) (swept store.Swept, err error) {
		began = time.Now()
		stmt, err := tx.PrepareContext(ctx, sqliteDrop)
		if err != nil {
			return swept, err
		}
		defer func() { _ = stmt.Close() }()
		for _, e := range part {
			r, err := stmt.ExecContext(ctx, e.Scope, e.Key, e.Claim)
			if err != nil {
				return store.Swept{}, err
			}
			n, err := r.RowsAffected()
			if err != nil {
				return store.Swept{}, err
			}
			swept.Rows += int(n)
		}
		return swept, nil
	})
	if err == nil {
		swept.Held = time.Since(began)
	}
	return swept, err
}

// checkpoint moves what is in the log to where it belongs, without waiting for anybody, and
// without anybody having to wait for it. Whoever commits next does what it has not.
func (s *Store) checkpoint(ctx context.Context) {
	_, _ = s.db.ExecContext(ctx, "pragma wal_checkpoint(passive)")
}

// lightly makes COMMIT of a connection, if there is a log, neither wait for the disk nor
// move what is in the log.
func (t *txn) lightly(ctx context.Context) {
	var journal string
	var synchronous, moves int
	for name, to := range map[string]any{"journal_mode": &journal, "synchronous": &synchronous, "wal_autocheckpoint": &moves} {
		if t.conn.QueryRowContext(ctx, "pragma "+name).Scan(to) != nil {
			return
		}
	}
	const normal = 1
	if journal != "wal" {
		return
	}
	set := func(synchronous, moves int) string {
		return fmt.Sprintf("pragma synchronous = %d; pragma wal_autocheckpoint = %d", synchronous, moves)
	}
	t.unbind = set(synchronous, moves)
	_, _ = t.conn.ExecContext(ctx, set(min(synchronous, normal), 0))
}
