package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/upkeep"
)

var _ upkeep.Sweeper = (*Store)(nil)

// sweeping holds the statements with which a database deletes expired operations.
type sweeping struct {
	isolation   store.Isolation
	cheapCommit string              // makes the commit cheap; "": the database has no such statement
	alone       string              // whether no other transaction archives; "": the database has no such statement
	sweep       string              // limit, after: deletes rows, and returns their number and the expiry of the last one
	expiring    string              // limit, after: returns the scope, the key, the expiry and the columns of each record
	drop        string              // pgsql.Kept: deletes the rows that have not changed
	moment      func(time.Time) any // a time as the statements need it
}

var sweepings = map[sqlplane.Dialect]sweeping{
	sqlplane.PostgreSQL: {
		isolation:   store.ReadCommitted,
		cheapCommit: pgsql.SweepLightly,
		alone:       pgsql.SweepLock,
		sweep:       pgsql.Sweep,
		expiring:    pgsql.Expiring,
		drop:        pgsql.SweepKept,
		moment:      asTime,
	},
}

// Sweep implements [upkeep.Sweeper].
func (s *Store) Sweep(ctx context.Context, req upkeep.Sweep) (upkeep.Swept, error) {
	d := sweepings[s.dialect.name]
	if s.byCommit { // such a server may have no ctid
		d.sweep, d.drop = pgsql.SweepByKey, pgsql.SweepKeptByKey
	}
	switch {
	case s.dialect.name == sqlplane.MySQL:
		return s.sweepMySQL(ctx, req)
	case s.dialect.name == sqlplane.SQLite:
		return s.sweepSQLite(ctx, req)
	case req.Archive == nil:
		return s.sweeping(ctx, d, func(tx *sql.Tx) (upkeep.Swept, error) { return d.deleteExpired(ctx, tx, req) })
	}
	return s.sweeping(ctx, d, func(tx *sql.Tx) (upkeep.Swept, error) {
		var alone bool
		// Two sweepers that archive at the same time would archive every record twice.
		if err := tx.QueryRowContext(ctx, d.alone).Scan(&alone); err != nil || !alone {
			return upkeep.Swept{Mark: req.After}, err
		}
		found, err := d.readExpired(ctx, tx, req)
		if err != nil {
			return upkeep.Swept{}, err
		}
		return d.deleteKept(ctx, tx, req, found)
	})
}

// sweeping runs fn in a transaction.
func (s *Store) sweeping(ctx context.Context, d sweeping, fn func(*sql.Tx) (upkeep.Swept, error)) (upkeep.Swept, error) {
	t, err := s.open(ctx, store.BeginOptions{Isolation: d.isolation})
	if err != nil {
		return upkeep.Swept{}, s.down(err)
	}
	defer t.release()
	swept, err := fn(t.tx)
	if err != nil {
		_ = t.end()
		return upkeep.Swept{}, s.notSwept(err)
	}
	t.stop() // the caller must not cancel a COMMIT
	if err := t.commit(); err != nil {
		return upkeep.Swept{}, s.lost(err)
	}
	return swept, nil
}

// notSwept classifies the error of a sweep that has deleted nothing.
func (s *Store) notSwept(err error) error {
	if errors.As(err, new(*store.Error)) { // the error of Archive
		return err
	}
	return s.down(err)
}

// deleteExpired deletes expired records that are not archived.
func (d sweeping) deleteExpired(ctx context.Context, tx *sql.Tx, req upkeep.Sweep) (upkeep.Swept, error) {
	swept := upkeep.Swept{Mark: req.After}
	if err := d.makeCommitCheap(ctx, tx); err != nil {
		return swept, err
	}
	err := tx.QueryRowContext(ctx, d.sweep, req.Limit, d.moment(req.After)).Scan(&swept.Rows, &swept.Mark)
	swept.More = swept.Rows >= req.Limit
	return swept, err
}

// readExpired reads the expired records, and passes them to Archive.
func (d sweeping) readExpired(ctx context.Context, from querier, req upkeep.Sweep) (dialect.Batch, error) {
	found, err := collectExpired(ctx, from, d.expiring, scanExpired, req.Limit, d.moment(req.After))
	if err != nil || len(found.Rows) == 0 {
		return found, err
	}
	if err := req.Archive(ctx, found.Rows); err != nil {
		return found, &store.Error{Kind: store.KindOther, Err: err}
	}
	return found, nil
}

func scanExpired(rows *sql.Rows) (e upkeep.Expired, err error) {
	r, err := scan(rows, &e.Scope, &e.Key, (*dialect.Time)(&e.At))
	e.Record = r.Record
	return e, err
}

// collectExpired reads rows until they have so many bytes that they fill a batch.
func collectExpired(ctx context.Context, from querier, query string, scan func(*sql.Rows) (upkeep.Expired, error), args ...any) (found dialect.Batch, err error) {
	rows, err := from.QueryContext(ctx, query, args...)
	if err != nil {
		return found, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		e, err := scan(rows)
		if err != nil {
			return found, err
		}
		if found.Add(e) {
			break
		}
	}
	return found, errors.Join(rows.Err(), rows.Close())
}

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// deleteKept deletes the archived records.
func (d sweeping) deleteKept(ctx context.Context, tx *sql.Tx, req upkeep.Sweep, found dialect.Batch) (upkeep.Swept, error) {
	if len(found.Rows) == 0 {
		return upkeep.Swept{Mark: req.After}, nil
	}
	if err := d.makeCommitCheap(ctx, tx); err != nil {
		return upkeep.Swept{}, err
	}
	r, err := tx.ExecContext(ctx, d.drop, pgsql.Kept(found.Rows))
	if err != nil {
		return upkeep.Swept{}, err
	}
	n, err := r.RowsAffected()
	return upkeep.Swept{Rows: int(n), More: found.More(req.Limit), Mark: found.Rows[len(found.Rows)-1].At}, err
}

func (d sweeping) makeCommitCheap(ctx context.Context, tx *sql.Tx) (err error) {
	if d.cheapCommit != "" {
		_, err = tx.ExecContext(ctx, d.cheapCommit)
	}
	return err
}
