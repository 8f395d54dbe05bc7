package admin

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/attemptlog"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store/pgxstore"
)

// TestServerKilled kills the server while requests run. Each of them gets its verdict
// all the same, and when the server is back, each has a row or is counted.
func TestServerKilled(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	testenv.Need(t, "postgresql")
	ctx := t.Context()
	pg, err := testenv.StartPostgres(ctx, testenv.PostgresConfig{})
	must(t, err)
	defer func() { must(t, pg.Close()) }()
	must(t, pg.CreateDatabase("app"))
	pool, err := pgxpool.New(ctx, pg.URL("app"))
	must(t, err)
	defer pool.Close()
	must(t, pgxstore.Migrate(ctx, pool, attemptlog.Migrations))

	failed := make(chan error, 100)
	s := pgxstore.New(pool)
	l := attemptlog.New(s, attemptlog.Config{Batch: 8, Buffer: 64, Interval: 50 * time.Millisecond, Failed: func(err error) { failed <- err }})
	e := once.New(s, once.Config{Observer: l, Settle: 100 * time.Millisecond})
	call := func(i int) error {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		_, err := once.Do(ctx, e, once.Operation{Scope: "s", Key: fmt.Sprint(i)}, func(ctx context.Context, tx pgx.Tx) (int, error) {
			_, err := tx.Exec(ctx, "select 1")
			return i, err
		})
		return err
	}
	calls, unavailable := 0, 0
	for ; calls < 20; calls++ {
		must(t, call(calls))
	}
	must(t, pg.Kill())
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range 4 {
		wg.Go(func() {
			for range 50 {
				mu.Lock()
				i := calls
				calls++
				mu.Unlock()
				err := call(i)
				mu.Lock()
				if once.CodeOf(err) == once.CodeUnavailable {
					unavailable++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if unavailable != 200 || l.Dropped() == 0 {
		t.Errorf("%d of 200 calls were told that the store is away, %d attempts dropped", unavailable, l.Dropped())
	}
	<-failed // the outage was noticed, and said
	must(t, pg.Restart(ctx))
	must(t, call(calls))
	calls++
	must(t, l.Close(ctx))
	var rows, dropped, executed int
	must(t, pool.QueryRow(ctx, "select count(*) filter (where outcome <> 'dropped'), sum(dropped), count(*) filter (where outcome = 'executed') from once_attempt").Scan(&rows, &dropped, &executed))
	if rows+dropped != calls || int64(dropped) != l.Dropped() || executed < 20 {
		t.Errorf("%d rows, %d executed, %d dropped in rows and %d in all, of %d calls", rows, executed, dropped, l.Dropped(), calls)
	}
}
