package natural

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const messages = 16

// checkOffsets has all clients deliver all messages twice, in orders of their own. apply writes an
// effect whose id is the number.
func checkOffsets(t *testing.T, g testDB, source string, apply func(client, seq int64) (bool, error)) {
	t.Helper()
	var applied atomic.Int64
	atOnce(func(client int64) {
		for _, n := range rand.New(rand.NewPCG(uint64(client), 0)).Perm(2 * messages) {
			ok, err := apply(client, int64(n%messages))
			if err != nil {
				t.Errorf("message %d: %v", n%messages, err)
			}
			if ok {
				applied.Add(1)
			}
		}
	})
	if n := g.number(t, "select seq from position where source = $1", source); n != messages-1 {
		t.Errorf("position %d", n)
	}
	if n := g.number(t, "select count(*) from effect"); n != applied.Load() || n == 0 {
		t.Errorf("%d effects, and %d callers were told of one", n, applied.Load())
	}
}

// nothingEarlier fails if a message was applied that is not before this one.
func nothingEarlier(last *atomic.Int64, seq int64) error {
	if before := last.Swap(seq + 1); before > seq {
		return fmt.Errorf("message %d is applied after %d", seq, before-1)
	}
	return nil
}

// TestAnOffsetIsAppliedOnce, and never after a higher one.
func TestAnOffsetIsAppliedOnce(t *testing.T) {
	on(t, func(t *testing.T, g testDB) {
		var last atomic.Int64
		checkOffsets(t, g, "orders", func(client, seq int64) (bool, error) {
			return Apply(t.Context(), g.DB, g.dialect, "orders", seq, func(tx *sql.Tx) error {
				return errors.Join(nothingEarlier(&last, seq), g.effect(fmt.Sprint("orders ", seq), client)(tx))
			})
		})
		for seq := range int64(2 * messages) { // another source, in order, each twice
			ok, err := Apply(t.Context(), g.DB, g.dialect, "refunds", seq/2, g.effect(fmt.Sprint("refunds ", seq/2), 0))
			if first := seq%2 == 0; ok != first || err != nil {
				t.Errorf("call %d: %v, %v", seq, ok, err)
			}
		}
	})
}

// TestAnOffsetMovesWithItsEffect: if the effect fails, or the consumer ends before COMMIT, the message
// is applied when it comes again.
func TestAnOffsetMovesWithItsEffect(t *testing.T) {
	on(t, func(t *testing.T, g testDB) {
		for seq := range int64(3) {
			id := fmt.Sprint("orders ", seq)
			write, broken := g.effect(id, 0), errors.New("broken")
			apply := func(ctx context.Context, effect func(tx *sql.Tx) error) (bool, error) {
				return Apply(ctx, g.DB, g.dialect, "orders", seq, effect)
			}
			if ok, err := apply(t.Context(), func(tx *sql.Tx) error { return errors.Join(write(tx), broken) }); ok || !errors.Is(err, broken) {
				t.Errorf("the effect fails: %v, %v", ok, err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			if ok, err := apply(ctx, func(tx *sql.Tx) error { defer cancel(); return write(tx) }); ok || err == nil {
				t.Errorf("the consumer has ended: %v, %v", ok, err)
			}
			cancel()
			for _, want := range []bool{true, false} {
				if ok, err := apply(t.Context(), write); ok != want || err != nil {
					t.Errorf("message %d comes again: %v, %v", seq, ok, err)
				}
			}
		}
	})
}

// TestAnOffsetIsAppliedOncePgx is the same with pgx.
func TestAnOffsetIsAppliedOncePgx(t *testing.T) {
	g := newPostgres(t)
	pool, err := pgxpool.New(t.Context(), g.dsn)
	must(t, err)
	defer pool.Close()
	write := func(client, seq int64) func(tx pgx.Tx) error {
		return func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), "insert into effect (id, client) values ($1, $2)", fmt.Sprint("orders ", seq), client)
			return err
		}
	}
	broken := errors.New("broken")
	ok, err := ApplyPgx(t.Context(), pool, "orders", 0, func(tx pgx.Tx) error { return errors.Join(write(0, 0)(tx), broken) })
	if ok || !errors.Is(err, broken) {
		t.Errorf("the effect fails: %v, %v", ok, err)
	}
	var last atomic.Int64
	checkOffsets(t, g, "orders", func(client, seq int64) (bool, error) {
		return ApplyPgx(t.Context(), pool, "orders", seq, func(tx pgx.Tx) error {
			return errors.Join(nothingEarlier(&last, seq), write(client, seq)(tx))
		})
	})
}
