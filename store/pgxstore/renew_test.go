package pgxstore_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/upkeep"
)

// TestRenewalsNeverDeadlock: of the same leases, at the same time, in any order.
func TestRenewalsNeverDeadlock(t *testing.T) {
	t.Parallel()
	pool := openPool(t, func(c *pgxpool.Config) { c.MaxConns = 8 })
	s := pgxstore.New(pool, pgxstore.Config{})
	var holds []store.Hold
	for i := range 150 {
		c := running(fmt.Sprint("k", i))
		swap(t, s, c)
		holds = append(holds, holdOf(c))
	}
	var group sync.WaitGroup
	for worker := range 4 {
		mine := slices.Clone(holds)
		if worker%2 == 1 {
			slices.Reverse(mine)
		}
		group.Go(func() {
			for range 10 {
				if renewed, err := s.Unwrap().(store.Renewer).Renew(t.Context(), mine, time.Hour); err != nil || len(renewed) != len(mine) {
					t.Errorf("%d of %d renewed, %v", len(renewed), len(mine), err)
				}
			}
		})
	}
	group.Wait()
}

// TestARenewalTouchesNoIndex: lease_until is in none, and neither in the condition of one.
func TestARenewalTouchesNoIndex(t *testing.T) {
	t.Parallel()
	pool := openPool(t)
	if n := count(t, pool, "select count(*) from pg_indexes where tablename = 'once_operation' and indexdef like '%lease_until%'"); n != 0 {
		t.Errorf("%d indexes change with a renewal", n)
	}
}

// TestUnfinishedReadsItsIndex, of which the done operations are no part, also at its end.
func TestUnfinishedReadsItsIndex(t *testing.T) {
	t.Parallel()
	pool := openPool(t)
	_, err := pool.Exec(t.Context(), `insert into once_operation (scope, key, state, claim) select 's', 'k' || g, case when g % 1000 = 0 then 1 else 2 end, '' from generate_series(1, 20000) g; analyze once_operation`)
	if err != nil {
		t.Fatal(err)
	}
	for query, args := range map[string][]any{pgsql.Unfinished: {"s", "k5", 10, true, "", 0}, pgsql.UnfinishedBefore: {"s", "k5", 10, true, "order", 0, "t"}, dialect.Backlog(sqlplane.PostgreSQL): nil} {
		rows, err := pool.Query(t.Context(), "explain (format text) "+query, args...)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if plan := strings.Join(lines, "\n"); err != nil || !strings.Contains(plan, "once_operation_unfinished") || strings.Contains(plan, "Sort") || strings.Contains(plan, "Seq Scan") {
			t.Errorf("%v\n%s", err, plan)
		}
	}
	s := pgxstore.New(pool, pgxstore.Config{})
	var after store.ID
	seen := 0
	for {
		list, next, err := s.Unfinished(t.Context(), upkeep.Listing{After: after, Limit: 7})
		if err != nil {
			t.Fatal(err)
		}
		seen += len(list)
		if after = next; next.IsZero() {
			break
		}
	}
	if seen != 20 {
		t.Errorf("%d operations listed, want 20", seen)
	}
}
