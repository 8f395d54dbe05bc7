package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
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

// A sweeper has the file for one part at a time, and then goes to the end of the line. A
// part ends as soon as somebody waits, but not before it has some rows: each costs some 20
// microseconds, and its transaction 200.
const (
	sqliteLeast      = 10
	sqliteLeastGroup = 25 // where each transaction waits for the disk
	sqliteMost       = 50
)

// sqliteMoves is after how many rows a sweeper makes a checkpoint, beside the requests. Each
// row was on a page of its own, and with a thousand pages in the log the COMMIT of whoever
// comes next would have to.
const sqliteMoves = 100

// sweepSQLite is Sweep in as many transactions as are needed.
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
	all.Mark = found[len(found)-1].At
	var rest time.Duration
	for len(found) > 0 {
		part, err := s.sweepPart(ctx, found[:min(len(found), sqliteMost)])
		if err != nil && all.Rows > 0 { // what is left is found again
			all.More, all.Mark = true, found[0].At
			return all, nil
		}
		if err != nil {
			return store.Swept{}, err
		}
		found = found[part.tried:]
		all.Rows += part.rows
		all.Held += part.held
		rest += part.held
		if s.moves.Add(int64(part.rows)) < sqliteMoves {
			continue
		}
		s.moves.Store(0)
		began := time.Now()
		s.checkpoint(ctx)
		select { // other processes do not stand in the line
		case <-time.After(rest - time.Since(began)):
		case <-ctx.Done(): // the next part says so
		}
		rest = 0
	}
	return all, nil
}

// sweptPart is what one transaction has done.
type sweptPart struct {
	tried, rows int
	held        time.Duration
}

// sweepPart deletes rows that are still the same, the first ones of part, in a transaction.
func (s *Store) sweepPart(ctx context.Context, part []store.Expired) (done sweptPart, err error) {
	least := sqliteLeast
	if s.writer != nil {
		least = sqliteLeastGroup
	}
	var began time.Time
	_, err = s.sweeping(ctx, sweeping{}, func(tx *sql.Tx) (swept store.Swept, err error) {
		began = time.Now()
		stmt, err := tx.PrepareContext(ctx, sqliteDrop)
		if err != nil {
			return swept, err
		}
		defer func() { _ = stmt.Close() }()
		for _, e := range part {
			if done.tried >= least && s.line.waits() {
				break
			}
			r, err := stmt.ExecContext(ctx, e.Scope, e.Key, e.Claim)
			if err != nil {
				return swept, err
			}
			n, err := r.RowsAffected()
			if err != nil {
				return swept, err
			}
			done.tried++
			done.rows += int(n)
		}
		return swept, nil
	})
	done.held = time.Since(began)
	return done, err
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
