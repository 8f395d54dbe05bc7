package sqlstore

import (
	"context"
	"errors"

	"github.com/oncelib/once/internal/pgsql"
	"github.com/oncelib/once/store"
)

// Swap implements [store.Operations].
func (s *Store) Swap(ctx context.Context, c store.Change) (store.Record, error) {
	if s.dialect.name == store.MySQL && !c.ID.IsZero() && c.Expect.Fence == 0 {
		return s.swapMySQL(ctx, c)
	}
	opts := store.BeginOptions{ID: c.ID}
	if s.dialect.name == store.PostgreSQL { // which at SERIALIZABLE would watch it: see postgres.go
		opts.Isolation = store.ReadCommitted
	}
	t, err := s.open(ctx, opts)
	if err != nil {
		return store.Record{}, s.down(err)
	}
	if err := t.swap(ctx, c); err != nil {
		if t.standby(ctx, err) {
			err = s.down(pgsql.ErrRecovery)
		}
		_ = t.end() // before a connection is asked for, which may be the same one
		return s.inTheWay(ctx, c, err)
	}
	defer t.release()
	t.stop()
	if err := t.commit(); err != nil {
		return store.Record{}, s.lost(err)
	}
	return c.Next, nil
}

func (t *txn) swap(ctx context.Context, c store.Change) error {
	if t.s.dialect.name == store.MySQL && !c.ID.IsZero() {
		if err := t.replaceMySQL(ctx, c); err != nil {
			return err
		}
	} else if !c.ID.IsZero() {
		query, args := t.s.dialect.swap(c)
		if c.Expect.Fence == 0 {
			if _, err := t.tx.ExecContext(ctx, t.s.dialect.expired, c.ID.Scope, c.ID.Key); err != nil {
				return t.s.failed(err, false)
			}
		}
		r, err := t.tx.ExecContext(ctx, query, args...)
		if err != nil {
			return t.s.failed(err, true)
		}
		if n, err := r.RowsAffected(); err != nil || n != 1 {
			return &store.Error{Kind: store.KindTaken, Err: errors.Join(errExpect, err)}
		}
	}
	return t.s.writes(ctx, t.tx, c.Writes)
}

var errExpect = errors.New("the record is not what was expected")

func (d database) swap(c store.Change) (string, []any) {
	key := []any{c.ID.Scope, c.ID.Key}
	times := []any{millis(c.Lease), millis(c.Retain)}
	switch {
	case c.Next.State == store.StateAbsent:
		return d.swapDelete, append(key, c.Expect.Fence, c.Expect.LeaseExpired)
	case c.Expect.Fence == 0:
		return d.swapInsert, append(append(append(key, pgsql.LockID(c.ID)), fields(c.Next)...), times...)
	}
	return d.swapUpdate, append(append(append(key, fields(c.Next)...), times...), c.Expect.Fence, c.Expect.LeaseExpired)
}

// inTheWay reads what has made a Swap fail.
func (s *Store) inTheWay(ctx context.Context, c store.Change, failed error) (store.Record, error) {
	if store.KindOf(failed) != store.KindTaken {
		return store.Record{}, failed
	}
	rec, err := s.Read(ctx, c.ID)
	if err != nil {
		return rec, err
	}
	if rec.State == store.StateAbsent && c.Expect.Fence == 0 {
		rec.State = store.StateRunning // claimed by an open transaction
	}
	return rec, failed
}
