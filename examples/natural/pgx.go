package natural

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// AdvancePgx is Advance for users of pgx.
func AdvancePgx(ctx context.Context, tx pgx.Tx, source string, seq int64) (moved bool, err error) {
	tag, err := tx.Exec(ctx, advance.postgres, source, seq)
	return tag.RowsAffected() == 1, err
}

// ApplyPgx is Apply for users of pgx.
func ApplyPgx(ctx context.Context, pool *pgxpool.Pool, source string, seq int64, effect func(tx pgx.Tx) error) (applied bool, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if applied, err = AdvancePgx(ctx, tx, source, seq); !applied || err != nil {
			return err
		}
		return effect(tx)
	})
	return applied && err == nil, err
}
