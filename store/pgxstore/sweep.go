package pgxstore

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/upkeep"
)

var _ upkeep.Sweeper = (*Store)(nil)

// Sweep implements [upkeep.Sweeper].
func (s *Store) Sweep(ctx context.Context, req upkeep.Sweep) (swept upkeep.Swept, err error) {
	if req.Archive == nil {
		return s.sweepOut(ctx, req)
	}
	over := false
	err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) (err error) {
		swept, err = s.sweepKept(ctx, tx, req)
		over = err == nil
		return err
	})
	switch {
	case err == nil:
		return swept, nil
	case over: // only COMMIT was left, so the rows may be deleted
		return upkeep.Swept{}, classify(err, statement{})
	case errors.As(err, new(*store.Error)):
		return upkeep.Swept{}, err
	}
	return upkeep.Swept{}, down(err)
}

// sweepOut sweeps without an archive, in one round trip instead of four. The saved time is useful, because a sweeper
// takes its time from requests.
func (s *Store) sweepOut(ctx context.Context, req upkeep.Sweep) (upkeep.Swept, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return upkeep.Swept{}, down(err)
	}
	defer conn.Release()
	if err := s.probe(ctx, conn.Conn()); err != nil {
		return upkeep.Swept{}, err
	}
	b := make(pipeline, 0, 4)
	b.queue(beginText[store.ReadCommitted])
	b.queue(pgsql.SweepLightly)
	b.queue(s.textByClaim(pgsql.Sweep, pgsql.SweepByKey), int64(req.Limit), req.After)
	b.queue(commit)
	swept, err := readSwept(s.send(ctx, conn.Conn(), b), req)
	if err == nil {
		return swept, nil
	}
	if conn.Conn().PgConn().TxStatus() == 'E' {
		answer := awaitAnswer(conn.Conn(), abandonTime)
		_, err := conn.Exec(context.WithoutCancel(ctx), "rollback")
		_ = answer.stop(err)
	}
	if pe := serverError(err); pe == nil || fatal(pe) { // the answer to COMMIT may be lost, too
		return upkeep.Swept{}, classify(err, statement{})
	}
	return upkeep.Swept{}, down(err)
}

// textByClaim returns the statement for this server: a server without advisory locks may have no ctid either.
func (s *Store) textByClaim(usual, byCommit string) string {
	if s.byCommit.Load() {
		return byCommit
	}
	return usual
}

// readSwept reads the answers to the statements of sweepOut.
func readSwept(br pgx.BatchResults, req upkeep.Sweep) (swept upkeep.Swept, err error) {
	defer func() {
		if e := br.Close(); err == nil { // the error of COMMIT
			err = e
		}
	}()
	for range 2 {
		if _, err := br.Exec(); err != nil {
			return swept, err
		}
	}
	err = br.QueryRow().Scan(&swept.Rows, &swept.Mark)
	swept.More = swept.Rows >= req.Limit
	return swept, err
}

// sweepKept archives expired records, and then deletes them in the same transaction.
func (s *Store) sweepKept(ctx context.Context, tx pgx.Tx, req upkeep.Sweep) (upkeep.Swept, error) {
	swept := upkeep.Swept{Mark: req.After}
	if err := s.probe(ctx, tx.Conn()); err != nil {
		return swept, err
	}
	var alone bool
	// Two sweepers that archive at the same time would archive every record twice.
	if err := tx.QueryRow(ctx, pgsql.SweepLock).Scan(&alone); err != nil || !alone {
		return swept, err
	}
	rows, err := tx.Query(ctx, pgsql.Expiring, req.Limit, req.After)
	if err != nil {
		return swept, err
	}
	found, err := collectExpired(rows)
	if err != nil || len(found.Rows) == 0 {
		return swept, err
	}
	if err := req.Archive(ctx, found.Rows); err != nil {
		return swept, &store.Error{Kind: store.KindOther, Err: err}
	}
	var b pgx.Batch
	b.Queue(pgsql.SweepLightly)
	b.Queue(s.textByClaim(pgsql.SweepKept, pgsql.SweepKeptByKey), pgsql.Kept(found.Rows)).Exec(func(tag pgconn.CommandTag) error {
		swept.Rows = int(tag.RowsAffected())
		return nil
	})
	swept.More, swept.Mark = found.More(req.Limit), found.Rows[len(found.Rows)-1].At
	err = tx.SendBatch(ctx, &b).Close()
	return swept, err
}

func collectExpired(rows pgx.Rows) (found dialect.Batch, err error) {
	defer rows.Close()
	for rows.Next() {
		e, err := scanExpired(rows)
		if err != nil {
			return found, err
		}
		if found.Add(e) {
			break
		}
	}
	rows.Close() // reads and drops the rest
	return found, rows.Err()
}

func scanExpired(from pgx.CollectableRow) (e upkeep.Expired, err error) {
	r, err := scan(behind{from, []any{&e.Scope, &e.Key, &e.At}})
	e.Record = r.Record
	return e, err
}

// behind reads extra columns that come before the columns of the record.
type behind struct {
	pgx.Row
	front []any
}

func (b behind) Scan(dest ...any) error { return b.Row.Scan(slices.Concat(b.front, dest)...) }
