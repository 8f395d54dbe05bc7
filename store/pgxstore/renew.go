package pgxstore

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/store"
)

// Renew implements [store.Renewer] with one round trip for 100 leases. It waits for a row that another transaction has
// locked, for example a commit that requires this lease.
func (a abilities) Renew(ctx context.Context, holds []store.Hold, lease time.Duration) (renewed []store.Hold, err error) {
	for some := range slices.Chunk(holds, pgsql.RenewAtOnce) {
		committed := len(renewed)
		_, err := a.s.apart(ctx, pipeline{{sql: pgsql.Renew, args: []any{pgsql.Holds(some), millis(lease)}, each: func(row pgx.Rows) error {
			var h store.Hold
			err := row.Scan(&h.ID.Scope, &h.ID.Key, &h.Fence, &h.Nonce)
			renewed = append(renewed, h)
			return err
		}}})
		if err != nil {
			// Only the earlier round trips have committed.
			return renewed[:committed], err
		}
	}
	return renewed, nil
}
