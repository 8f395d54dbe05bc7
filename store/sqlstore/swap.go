package sqlstore

import (
	"context"
	"errors"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// Swap implements [store.Operations].
func (s *Store) Swap(ctx context.Context, c store.Change) (store.Record, error) {
	if s.dialect.name == sqlplane.MySQL && !c.ID.IsZero() && c.Expect.Fence == 0 && c.Next.State != store.StateAbsent {
		return s.swapMySQL(ctx, c)
	}
	opts := store.BeginOptions{ID: c.ID, First: s.file != nil} // First: without a look-up before the wait
	if s.dialect.name == sqlplane.PostgreSQL {                 // at SERIALIZABLE, the server would track the read: see postgres.go
		opts.Isolation = store.ReadCommitted
	}
	t, err := s.open(ctx, opts)
	if err != nil {
		return store.Record{}, s.down(err)
	}
	if err := t.write(ctx, c); err != nil {
		err = t.dropStandby(ctx, err)
		_ = t.end() // before inTheWay asks for a connection, because the pool may have only this one
		return s.inTheWay(ctx, c, err)
	}
	defer t.release()
	// The caller must not cancel a COMMIT.
	t.stop()
	if err := t.commit(); err != nil {
		return store.Record{}, s.lost(err)
	}
	return c.Next, nil
}

// inTheWay returns the record that has made a Swap fail.
func (s *Store) inTheWay(ctx context.Context, c store.Change, failed error) (store.Record, error) {
	if store.KindOf(failed) != store.KindTaken || errors.Is(failed, errNotHeld) {
		return store.Record{}, failed
	}
	rec, err := s.Read(ctx, c.ID)
	if err != nil {
		return rec, err
	}
	if rec.State == store.StateAbsent && c.Expect.Fence == 0 {
		rec.State = store.StateRunning // an open transaction holds the claim
	}
	return rec, failed
}
