package sqlstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

var _ store.Renewer = (*Store)(nil)

// Renew implements [store.Renewer], in one transaction.
func (s *Store) Renew(ctx context.Context, holds []store.Hold, lease time.Duration) (renewed []store.Hold, err error) {
	if len(holds) == 0 {
		return nil, nil
	}
	// The rows are locked in the same order as by Change.Held, because otherwise the two could deadlock.
	holds = slices.SortedFunc(slices.Values(holds), func(a, b store.Hold) int {
		return cmp.Or(cmp.Compare(a.ID.Scope, b.ID.Scope), cmp.Compare(a.ID.Key, b.ID.Key))
	})
	err = s.leasing(ctx, lease, func(own context.Context, t *txn) error {
		for part := range slices.Chunk(holds, pgsql.RenewAtOnce) {
			part, err := t.renew(own, part, lease)
			if err != nil {
				return err
			}
			renewed = append(renewed, part...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return renewed, nil
}

// leasing runs fn, which writes leases, in a transaction. After an error nothing was applied, unless the kind of the error
// is [store.KindLost].
func (s *Store) leasing(ctx context.Context, lease time.Duration, fn func(own context.Context, t *txn) error) error {
	opts := store.BeginOptions{Isolation: store.ReadCommitted} // at a higher level, a concurrent change would cause an error
	if s.dialect.name == sqlplane.SQLite {                     // SQLite has only one level
		opts.Isolation = store.DefaultIsolation
	}
	t, err := s.open(ctx, opts)
	if err != nil {
		return s.down(err)
	}
	own := s.ownContext(ctx)
	if err = t.boundRenewal(own, lease); err == nil {
		err = fn(own, t)
	}
	if err != nil {
		err = s.down(t.dropStandby(ctx, err))
		_ = t.end() // nothing was applied
		return err
	}
	defer t.release()
	t.stop() // the caller must not cancel a COMMIT
	if err := t.commit(); err != nil {
		return s.lost(err)
	}
	return nil
}

// shortestIdle is the shortest idle timeout of a renewal, even with a short lease. So a process on a busy machine does not
// lose its connection.
const shortestIdle = 2 * time.Second

// boundRenewal makes the server end the transaction if this process stops before COMMIT. Until then, no process can take
// the operations over. SQLite has no server that could do this.
func (t *txn) boundRenewal(ctx context.Context, lease time.Duration) error {
	idle := store.Timeouts{Idle: max(lease, shortestIdle)}
	switch t.s.dialect.name {
	case sqlplane.PostgreSQL:
		return t.s.dialect.timeouts(ctx, t.tx, idle)
	case sqlplane.MySQL:
		return t.setTimeouts(ctx, idle)
	}
	return nil
}

// renew renews the leases of part that are still held, and returns them.
func (t *txn) renew(ctx context.Context, part []store.Hold, lease time.Duration) ([]store.Hold, error) {
	switch t.s.dialect.name {
	case sqlplane.PostgreSQL:
		return collectHolds(ctx, t.tx, pgsql.Renew, pgsql.Holds(part), millis(lease))
	case sqlplane.MySQL:
		return t.renewMySQL(ctx, part, lease)
	}
	var renewed []store.Hold
	for _, h := range part {
		r, err := t.tx.ExecContext(ctx, sqliteRenew, h.ID.Scope, h.ID.Key, h.Fence, h.Nonce, millis(lease))
		if err != nil {
			return nil, err
		}
		n, err := r.RowsAffected()
		if err != nil {
			return nil, err
		}
		if n == 1 {
			renewed = append(renewed, h)
		}
	}
	return renewed, nil
}

// renewMySQL reads the leases before and after the update.
func (t *txn) renewMySQL(ctx context.Context, part []store.Hold, lease time.Duration) ([]store.Hold, error) {
	var onReplica bool
	if err := t.tx.QueryRowContext(ctx, "select "+mysqlReplica).Scan(&onReplica); err != nil {
		return nil, err
	}
	if onReplica {
		return nil, errReplica
	}
	// If a lease is not held any more, an open transaction may claim its row, and an update would wait for this row.
	held, err := collectHolds(ctx, t.tx, heldMySQL(part))
	if err != nil || len(held) == 0 {
		return nil, err
	}
	those, values := holdsMySQL(held)
	if _, err := t.tx.ExecContext(ctx, fill("update "+those+" set o.lease_until = "+mysqlNow+" + ?", append(values, millis(lease))...)); err != nil {
		return nil, err
	}
	// An update that changes no value counts no row, so its count says nothing.
	return collectHolds(ctx, t.tx, heldMySQL(held))
}
