package telemetry

import (
	"context"
	"database/sql"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/onceprom"
)

// TestDeadlocksAreCounted: as what they are, by the store that knows its database's errors.
func TestDeadlocksAreCounted(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, []string{harness.Pgx, harness.Postgres, harness.MariaDB, harness.MySQL}, testDeadlock[pgx.Tx], testDeadlock[*sql.Tx])
}

func testDeadlock[TX any](t *testing.T, g fixture[TX]) {
	g.exec(t, "create table account (name varchar(10) primary key, amount int not null)")
	g.exec(t, "insert into account (name, amount) values ('a', 0), ('b', 0)")
	m := onceprom.New(onceprom.Config{})
	e := once.New(g.store, once.Config{Observer: m})

	var first, all sync.WaitGroup // each has its first row when both ask for the second
	first.Add(2)
	transfer := func(from, to string) {
		var met sync.Once
		_, err := once.Do(t.Context(), e, operation(from), func(ctx context.Context, tx TX) (string, error) {
			const add = "update account set amount = amount + 1 where name = ?"
			if _, err := g.store.On(tx).Exec(ctx, g.text(add, from)); err != nil {
				return "", err
			}
			met.Do(func() {
				first.Done()
				first.Wait()
			})
			_, err := g.store.On(tx).Exec(ctx, g.text(add, to))
			return "", err
		})
		if err != nil {
			t.Error(err)
		}
	}
	all.Go(func() { transfer("a", "b") })
	all.Go(func() { transfer("b", "a") })
	all.Wait()
	got, err := counters(m)
	must(t, err)
	if n := got["deadlocks_total{pay}"]; n < 1 || n != got["reruns_total{pay}"] || got["operations_total{conflict_retry,applied,pay}"] < 1 {
		t.Errorf("%v", got)
	}
	if n := g.count(t, "select sum(amount) from account"); n != 4 {
		t.Errorf("%d changes of accounts, want 4", n)
	}
}
