package operate_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/attemptlog"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/sql/attempts"
	"github.com/oncelib/once/store/pgxstore"
)

// BenchmarkWriteAttempts is what the log's goroutine does, per batch.
func BenchmarkWriteAttempts(b *testing.B) {
	for _, kind := range harness.Servers {
		for _, n := range []int{32, 256, 1000} {
			b.Run(fmt.Sprint(kind, n), func(b *testing.B) {
				g := newTestDB(b, kind)
				list := make([]attempts.Attempt, n)
				i := 0
				for b.Loop() {
					for k := range list {
						list[k] = attemptAt(i, "s", fmt.Sprint(i))
						i++
					}
					must(b, g.attempts.Write(b.Context(), list))
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(i), "us/row")
			})
		}
	}
}

// BenchmarkThroughputOfALog is a transaction with one insert, protected, by 16 clients: what a
// log of its attempts costs.
func BenchmarkThroughputOfALog(b *testing.B) {
	for _, name := range []string{"without", "log"} {
		b.Run(name, func(b *testing.B) {
			g := newTestDB(b, harness.Postgres)
			g.exec(b, "create table charge (id text primary key)")
			cfg, err := pgxpool.ParseConfig(g.DSN)
			must(b, err)
			cfg.MaxConns = 16
			pool, err := pgxpool.NewWithConfig(b.Context(), cfg)
			must(b, err)
			defer pool.Close()
			s := pgxstore.New(pool, pgxstore.Config{})
			var engine *once.Engine[pgx.Tx]
			if name == "log" {
				l := attemptlog.New(s, attemptlog.Config{})
				engine = once.New(s, once.Config{Observer: l})
				defer func() { must(b, l.Close(context.Background())); b.ReportMetric(float64(l.Dropped()), "dropped") }()
			} else {
				engine = once.New(s, once.Config{})
			}
			b.SetParallelism(16 / runtime.GOMAXPROCS(0))
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					key := once.NewKey()
					_, err := once.Do(context.Background(), engine, once.Operation{Scope: "s", Key: key}, func(ctx context.Context, tx pgx.Tx) (int, error) {
						_, err := tx.Exec(ctx, "insert into charge values ($1)", key)
						return 1, err
					})
					if err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
		})
	}
}
