package sqlguard

import (
	"context"
	"database/sql"
	"slices"
	"testing"
	"time"

	"github.com/oncelib/once/internal/sql/sqlguard"
)

// arms are a driver by itself, behind the guard, and behind the guard in a
// guarded transaction.
var arms = []string{"bare", "unguarded", "guarded"}

func (g *testDB) arm(name string) (*sql.DB, context.Context) {
	ctx := context.Background()
	switch name {
	case "bare":
		return g.bare, ctx
	case "guarded":
		return g.guarded, new(sqlguard.Txn).Context(ctx)
	default:
		return g.guarded, ctx
	}
}

// BenchmarkStatementUnderTheGuard runs one small statement in an open transaction.
func BenchmarkStatementUnderTheGuard(b *testing.B) {
	inTurns(b, func(b *testing.B, g *testDB, arm string) func() {
		b.Helper()
		if g.dialect == sqlguard.SQLite { // where only one can be open for writing
			g = lite(b, "&_pragma=synchronous(off)")
		}
		db, ctx := g.arm(arm)
		tx, err := db.BeginTx(ctx, nil)
		must(b, err)
		b.Cleanup(func() { tx.Rollback() })
		return func() {
			_, err := tx.ExecContext(context.Background(), "SELECT id FROM taken WHERE id = 1")
			must(b, err)
		}
	})
}

// BenchmarkTransactionUnderTheGuard runs a transaction of two writes.
func BenchmarkTransactionUnderTheGuard(b *testing.B) {
	inTurns(b, func(b *testing.B, g *testDB, arm string) func() {
		b.Helper()
		return func() {
			db, ctx := g.arm(arm)
			tx, err := db.BeginTx(ctx, nil)
			must(b, err)
			for range 2 {
				_, err := tx.ExecContext(context.Background(), "UPDATE taken SET id = 1 WHERE id = 1")
				must(b, err)
			}
			must(b, tx.Commit())
		}
	})
}

// inTurns measures the arms in turns, so that a busy machine hurts all alike,
// and reports the median of each as a ratio to the bare driver.
func inTurns(b *testing.B, prepare func(b *testing.B, g *testDB, arm string) func()) {
	b.Helper()
	for name, on := range map[string]func(testing.TB) *testDB{
		"PostgreSQL": postgres,
		"SQLite":     func(t testing.TB) *testDB { t.Helper(); return lite(t, "&_pragma=synchronous(off)") },
	} {
		b.Run(name, func(b *testing.B) {
			g := on(b)
			run, took := make([]func(), len(arms)), make([][]time.Duration, len(arms))
			for i, arm := range arms {
				run[i] = prepare(b, g, arm)
			}
			for b.Loop() {
				for i := range arms {
					start := time.Now()
					run[i]()
					took[i] = append(took[i], time.Since(start))
				}
			}
			median := func(i int) float64 {
				slices.Sort(took[i])
				return float64(took[i][len(took[i])/2])
			}
			b.ReportMetric(median(0), "bare-ns")
			for i, arm := range arms[1:] {
				b.ReportMetric(median(i+1)/median(0), arm+"/bare")
			}
			b.ReportMetric(0, "ns/op") // three of them; it would mislead
		})
	}
}
