package keys

import (
	"fmt"
	"testing"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/migration"
)

// BenchmarkWriteAttempts is what the log's goroutine does, per batch.
func BenchmarkWriteAttempts(b *testing.B) {
	for _, d := range []migration.Dialect{migration.SQLite, migration.PostgreSQL} {
		for _, n := range []int{32, 256, 1000} {
			b.Run(fmt.Sprint(d, n), func(b *testing.B) {
				g := newGround(b, d)
				list := make([]store.Attempt, n)
				i := 0
				for b.Loop() {
					for k := range list {
						list[k] = attemptAt(i, "s", fmt.Sprint(i))
						i++
					}
					must(b, g.store.WriteAttempts(b.Context(), list))
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(i), "us/row")
			})
		}
	}
}
