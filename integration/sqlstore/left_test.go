package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store/sqlstore"
)

// TestStatementsThatAreLeftBehind: a handler returns while its goroutine goes on with
// statements. Those of a handler that fails take no effect, and those of one that succeeds
// take effect as far as the goroutine was told so. Nothing of it is in the operation that
// comes next.
func TestStatementsThatAreLeftBehind(t *testing.T) {
	testenv.Prove(t)
	on(t, func(t *testing.T, db *sql.DB, s *sqlstore.Store) {
		e := once.New(s, once.Config{})
		told := 0
		for i := range 30 {
			var failure error
			if i%2 == 0 {
				failure = errors.New("does not wait")
			}
			var left sync.WaitGroup
			n := 0 // statements that succeeded
			op := once.Operation{Scope: "s", Key: fmt.Sprint("left", i)}
			_, err := once.Do(t.Context(), e, op, func(ctx context.Context, tx *sql.Tx) (int, error) {
				first := make(chan struct{})
				own := context.WithoutCancel(ctx)
				left.Go(func() {
					for ; ; n++ {
						if _, err := tx.ExecContext(own, fmt.Sprintf("insert into charge values ('left %d %d')", i, n)); err != nil {
							return
						}
						if n == 0 {
							close(first)
						}
					}
				})
				<-first
				return 1, failure
			})
			next := fmt.Sprint("next", i)
			_, nextErr := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: next}, func(ctx context.Context, tx *sql.Tx) (int, error) {
				_, err := tx.ExecContext(ctx, "insert into charge values ('"+next+"')")
				return 1, err
			})
			left.Wait()
			if (failure == nil) != (err == nil) || nextErr != nil {
				t.Fatalf("%v; the next operation: %v", err, nextErr)
			}
			if failure != nil {
				n = 0
			}
			told += n
			if got := count(t, db, fmt.Sprintf("select count(*) from charge where id like 'left %d %%'", i)); got != n {
				t.Fatalf("operation %d (%v): %d rows are there, want %d", i, err, got, n)
			}
		}
		if told == 0 {
			t.Error("no statement of a goroutine has taken effect")
		}
		if n := count(t, db, "select count(*) from charge where id like 'next%'"); n != 30 {
			t.Errorf("%d effects of the next operations", n)
		}
	})
}

// TestManyJoins: on PostgreSQL each claim is a lock in a table that all sessions share. One
// transaction does not take more of it than its share, and those that execute nothing take
// none. The other databases know no such bound.
func TestManyJoins(t *testing.T) {
	testenv.Prove(t)
	on(t, func(t *testing.T, db *sql.DB, s *sqlstore.Store) {
		ctx := t.Context()
		e := once.New(s, once.Config{})
		_, postgres := db.Driver().(*stdlib.Driver)
		const most = 1000
		join := func(tx *sql.Tx, key int, fail error) error {
			_, err := once.Join(ctx, e, tx, once.Operation{Scope: "many", Key: fmt.Sprint(key)}, func(context.Context, *sql.Tx) (int, error) { return 1, fail })
			return err
		}
		locks := func(tx *sql.Tx, want int) {
			n := want
			if postgres {
				if err := tx.QueryRowContext(ctx, "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()").Scan(&n); err != nil {
					t.Error(err)
				}
			}
			if n != want {
				t.Errorf("%d locks, want %d", n, want)
			}
		}
		within := func(fn func(*sql.Tx)) {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			fn(tx)
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
		}
		within(func(tx *sql.Tx) {
			for i := range most {
				if i%10 == 0 {
					if err := join(tx, -1, errors.New("failed")); once.CodeOf(err) != once.CodeFailed {
						t.Fatal(err)
					}
				}
				if err := join(tx, i, nil); err != nil {
					t.Fatal(i, err)
				}
			}
			switch err := join(tx, most, nil); {
			case !postgres && err != nil:
				t.Error(err)
			case postgres && (once.CodeOf(err) != once.CodeMisuse || once.EffectOf(err) != once.EffectNotApplied || !strings.Contains(err.Error(), "Try: commit")):
				t.Errorf("one more: %v", err)
			}
			locks(tx, most)
		})
		within(func(tx *sql.Tx) {
			for i := range most + 1 {
				if err := join(tx, i, nil); err != nil {
					t.Fatal(i, err)
				}
			}
			locks(tx, 1)
		})
		if n := count(t, db, "select count(*) from once_operation"); n != most+1 {
			t.Errorf("%d operations", n)
		}
	})
}
