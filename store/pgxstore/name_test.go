package pgxstore_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store/pgxstore"
)

// TestServerLogNamesTheKey: with the settings that docs/logs.md tells, the log of the server has the hash of the key
// beside a statement of a handler that has waited for a lock, and beside one that was slow, with its arguments.
func TestServerLogNamesTheKey(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	ctx := t.Context()
	pg, err := testenv.StartPostgres(ctx, testenv.PostgresConfig{Settings: map[string]string{
		"log_line_prefix":                   "%m [%p] %q%a ",
		"log_lock_waits":                    "on",
		"deadlock_timeout":                  "10ms",
		"log_min_duration_statement":        "10ms",
		"log_parameter_max_length":          "64",
		"log_parameter_max_length_on_error": "64",
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := pg.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := pg.CreateDatabase("named"); err != nil {
		t.Fatal(err)
	}
	cfg, err := pgxpool.ParseConfig(pg.URL("named"))
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConnConfig.RuntimeParams["application_name"] = "payments"
	pool := migrated(t, cfg)
	s := pgxstore.New(pool, pgxstore.Config{NameTransactions: true})
	e := once.New(s, once.Config{})
	blocker, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := blocker.Exec(ctx, "update account set balance = 1 where id = 7"); err != nil {
		t.Fatal(err)
	}
	const key = "refund-4711"
	done := make(chan error, 1)
	go func() {
		_, err := once.Do(ctx, e, once.Operation{Scope: "acme POST /refunds", Key: key, Attempt: once.Attempt{Number: 1}}, func(ctx context.Context, tx pgx.Tx) (int, error) {
			_, err := tx.Exec(ctx, "update account set balance = balance - $1 where id = $2", 1234, 7)
			return 0, err
		})
		done <- err
	}()
	name := "payments " + once.KeyHash(key)
	waits := regexp.MustCompile(`(?s)` + name + ` LOG:  process \d+ still waiting for .* lock.*` + name + ` CONTEXT:[^\n]*\n[^\n]*'1234'`)
	logged(t, pg, waits)
	if err := blocker.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	logged(t, pg, regexp.MustCompile(name+` LOG:  duration: [0-9.]+ ms[^\n]* update account set [^\n]*\n[^\n]*`+name+` DETAIL:  [^\n]*'1234'`))
	var after string
	if err := pool.QueryRow(ctx, "show application_name").Scan(&after); err != nil || after != "payments" {
		t.Errorf("%q, %v: the name outlives its transaction", after, err)
	}
}

// logged waits until the log of the server has a text.
func logged(t *testing.T, pg *testenv.Postgres, text *regexp.Regexp) {
	t.Helper()
	for until := time.Now().Add(time.Minute); ; {
		log, err := os.ReadFile(pg.LogPath())
		if err != nil {
			t.Fatal(err)
		}
		if text.Match(log) {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("no %s in\n%s", text, log[max(0, len(log)-4000):])
		}
	}
}

// TestEveryTransactionIsNamed: however an operation begins, its handler has the name, at no round trip.
func TestEveryTransactionIsNamed(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	var wire faultnet.Wire
	pool := openPool(t, func(c *pgxpool.Config) {
		c.MaxConns = 1
		c.ConnConfig.DialFunc = wire.DialContext
		c.ConnConfig.RuntimeParams["application_name"] = "x" + strings.Repeat("é", 40) // it is cut in the middle of one
	})
	plain, named := pgxstore.New(pool, pgxstore.Config{}), pgxstore.New(pool, pgxstore.Config{NameTransactions: true})
	const read = "insert into charge select current_setting('application_name'), $1::int"
	n := 0
	run := func(s *pgxstore.Store, how string) (name string, trips int64) {
		t.Helper()
		n++
		op := once.Operation{Scope: "s", Key: fmt.Sprint(how, n), Attempt: attempt(how == "first")}
		e := once.New(s, once.Config{HashKeys: how == "hashed"})
		before := wire.Counts().RoundTrips
		var err error
		if how == "batch" {
			_, err = once.DoBatch(ctx, e, op, func(b *once.Batch) (int, error) {
				b.Exec(read, n)
				return 0, nil
			})
		} else {
			_, err = once.Do(ctx, e, op, func(ctx context.Context, tx pgx.Tx) (int, error) {
				_, err := tx.Exec(ctx, read, n)
				return 0, err
			})
		}
		if err != nil {
			t.Fatalf("%s: %v", how, err)
		}
		trips = wire.Counts().RoundTrips - before
		if err := pool.QueryRow(ctx, "delete from charge where amount = $1 returning id", n).Scan(&name); err != nil {
			t.Fatal(err)
		}
		if s == named && !strings.HasSuffix(name, " "+once.KeyHash(op.Key)) {
			t.Errorf("%s: %q", how, name)
		}
		return name, trips
	}
	for _, how := range []string{"as ever", "first", "batch", "hashed"} {
		for range 2 { // what is new to the connection is prepared
			run(plain, how)
			run(named, how)
		}
		name, bare := run(plain, how)
		if _, trips := run(named, how); trips != bare || !strings.HasPrefix(name, "x?") || strings.Contains(name, " ") {
			t.Errorf("%s: %d round trips, %d without a name, which is %q", how, trips, bare, name)
		}
	}
}
