package pgxstore_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store/pgxstore"
)

// TestWarmOpensConnectionsAhead: the connections are there before they are needed, and no more than the pool may have.
func TestWarmOpensConnectionsAhead(t *testing.T) {
	t.Parallel()
	pool := openPool(t, func(c *pgxpool.Config) { c.MaxConns = 5 })
	s := pgxstore.New(pool, pgxstore.Config{})
	if err := s.Warm(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	if got := pool.Stat(); got.TotalConns() != 3 || got.IdleConns() != 3 {
		t.Errorf("%d connections, %d of them idle", got.TotalConns(), got.IdleConns())
	}
	made := pool.Stat().NewConnsCount()
	if _, err := once.Do(t.Context(), once.New(s, once.Config{}), once.Operation{Scope: "s", Key: "k"}, func(ctx context.Context, tx pgx.Tx) (int, error) {
		_, err := tx.Exec(ctx, "select 1")
		return 1, err
	}); err != nil {
		t.Error(err)
	}
	if n := pool.Stat().NewConnsCount() - made; n != 0 {
		t.Errorf("an operation has made %d connections", n)
	}
	if err := s.Warm(t.Context(), 100); err != nil || pool.Stat().IdleConns() != 5 {
		t.Errorf("%v, %d idle", err, pool.Stat().IdleConns())
	}
}

// TestWarmSaysHowMany: when not all connections can be made, the error tells how many there are, and these stay.
func TestWarmSaysHowMany(t *testing.T) {
	t.Parallel()
	var left atomic.Int64
	left.Store(1000)
	full := errors.New("too many connections")
	pool := openPool(t, func(c *pgxpool.Config) {
		c.MaxConns = 5
		c.BeforeConnect = func(context.Context, *pgx.ConnConfig) error {
			if left.Add(-1) < 0 {
				return full
			}
			return nil
		}
	})
	left.Store(2) // and one is there
	err := pgxstore.New(pool, pgxstore.Config{}).Warm(t.Context(), 4)
	if !errors.Is(err, full) || !strings.Contains(err.Error(), "3 of 4") || !strings.Contains(err.Error(), "Try: ") || pool.Stat().IdleConns() != 3 {
		t.Errorf("%v, %d idle", err, pool.Stat().IdleConns())
	}
}
