package pgxstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/store"
)

// probe refuses a server that does not keep claims. It is asked by the first operation of a
// Store, and by those after it until the server has said yes. A connection that another Store
// has used need not be asked.
func (s *Store) probe(ctx context.Context, conn *pgx.Conn, on querier) error {
	if s.probed.Load() {
		return nil
	}
	if conn == nil || conn.PgConn().CustomData()[probedKey] == nil {
		if err := probe(ctx, on); err != nil {
			return err
		}
		if conn != nil {
			conn.PgConn().CustomData()[probedKey] = true
		}
	}
	s.probed.Store(true)
	return nil
}

const probedKey = "once.probed"

type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func probe(ctx context.Context, on querier) error {
	var kept bool
	var version string
	err := on.QueryRow(ctx, pgsql.ClaimProbe(), pgx.QueryExecModeSimpleProtocol).Scan(&kept, &version)
	switch {
	case err == nil && !kept:
		return &store.Error{Kind: store.KindMisused, Err: pgsql.Unproven(version)}
	case err != nil:
		return down(err)
	}
	return nil
}
