package telemetry

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/onceprom"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/store/sqlstore"
)

// childEnv makes this binary a process that is killed: it holds a life.
const childEnv = "ONCE_TORTURE_TELEMETRY"

// killedKey is the operation in which a process dies, of those that it has.
const (
	keys      = 5
	killedKey = "k2"
)

// life is what a process does: each operation once, and after each of them it is scraped. At is where it kills itself.
type life struct {
	DSN    string
	SQLite bool
	At     string
}

// The points of an operation.
const (
	atClaim     = "the claim"
	inHandler   = "the handler"
	afterCommit = "after COMMIT, before it is counted"
	afterCount  = "after it is counted, before a scrape"
	atScrape    = "after the scrape"
	nowhere     = ""
)

// told is what a process tells after each operation.
type told struct {
	Key      string
	Replayed bool
	Counters map[string]float64
}

func beChild(text string) int {
	var l life
	err := json.Unmarshal([]byte(text), &l)
	if err == nil {
		err = l.live(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (l life) live(ctx context.Context) error {
	if l.SQLite {
		db, err := sqlstore.Open("sqlite", l.DSN)
		if err != nil {
			return err
		}
		defer db.Close()
		s, err := sqlstore.New(ctx, db, sqlstore.Config{})
		if err != nil {
			return err
		}
		return work(ctx, l, ground[*sql.Tx]{s})
	}
	pool, err := pgxpool.New(ctx, l.DSN)
	if err != nil {
		return err
	}
	defer pool.Close()
	return work(ctx, l, ground[pgx.Tx]{pgxstore.New(pool, pgxstore.Config{})})
}

func work[TX any](ctx context.Context, l life, g ground[TX]) error {
	m := onceprom.New(onceprom.Config{})
	die := func(key, at string) {
		if key == killedKey && at == l.At {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	}
	for i := range keys {
		key := fmt.Sprint("k", i)
		on := func(t once.EventType, at string) once.Observer {
			return observer(func(e once.Event) {
				if e.Type == t {
					die(key, at)
				}
			})
		}
		e := once.New(g.store, once.Config{Observer: once.Observers(on(once.EventClaimed, atClaim), on(once.EventFinished, afterCommit), m, on(once.EventFinished, afterCount))})
		res, err := once.Do(ctx, e, operation(key), func(ctx context.Context, tx TX) (string, error) {
			v, err := g.pay(key)(ctx, tx)
			die(key, inHandler)
			return v, err
		})
		if err != nil {
			return err
		}
		found, err := counters(m)
		if err != nil {
			return err
		}
		if err := json.NewEncoder(os.Stdout).Encode(told{key, res.Replayed, found}); err != nil {
			return err
		}
		die(key, atScrape)
	}
	return nil
}

type observer func(once.Event)

func (f observer) Observe(_ context.Context, e once.Event) { f(e) }

// lived runs a process to its end, and returns what it has told and its last scrape.
func (l life) lived(t *testing.T) (list []told, last map[string]float64) {
	t.Helper()
	text, err := json.Marshal(l)
	must(t, err)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var said told
		must(t, json.Unmarshal(lines.Bytes(), &said))
		list, last = append(list, said), said.Counters
	}
	err = cmd.Wait()
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if killed := status.Signaled(); killed != (l.At != nowhere) {
		t.Fatalf("%q: killed %v, %v", l.At, killed, err)
	}
	return list, last
}

// TestKilledProcessLosesNoCounters: a process is killed at each point of an operation, and its successor is given all
// operations again. What both have counted as executed, and one that the database holds and nobody has counted, are the effects. The one is
// explained: the successor has replayed an operation of which the dead process had not told before the last scrape.
func TestKilledProcessLosesNoCounters(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	cell(t, "SQLite", testenv.InTest, func(t *testing.T) {
		testKilled(t, func(t *testing.T) (ground[*sql.Tx], life) {
			dsn := sqliteFile(t)
			return newSQL(t, "sqlite", dsn), life{DSN: dsn, SQLite: true}
		})
	})
	cell(t, "pgxstore", testenv.InProve, func(t *testing.T) {
		testKilled(t, func(t *testing.T) (ground[pgx.Tx], life) {
			dsn := testenv.NewDatabase(t)
			pool, err := pgxpool.New(t.Context(), dsn)
			must(t, err)
			t.Cleanup(pool.Close)
			must(t, pgxstore.Migrate(t.Context(), pool))
			_, err = pool.Exec(t.Context(), effects)
			must(t, err)
			return ground[pgx.Tx]{pgxstore.New(pool, pgxstore.Config{})}, life{DSN: dsn}
		})
	})
}

func testKilled[TX any](t *testing.T, newGround func(*testing.T) (ground[TX], life)) {
	const executed, replayed = "operations_total{new_execution,applied,pay}", "operations_total{db_hit,applied,pay}"
	for at, uncounted := range map[string]float64{atClaim: 0, inHandler: 0, afterCommit: 1, afterCount: 1, atScrape: 0} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			g, first := newGround(t)
			second := first
			first.At = at
			before, scraped := first.lived(t)
			after, counted := second.lived(t)

			told := map[string]bool{}
			for _, b := range before {
				told[b.Key] = true
			}
			unexplained, replays := 0.0, 0.0
			for _, a := range after {
				if a.Replayed {
					replays++
				}
				if a.Replayed && !told[a.Key] {
					unexplained++
				}
			}
			if unexplained != uncounted {
				t.Errorf("%v operations were executed and not counted, want %v", unexplained, uncounted)
			}
			if n := counted[replayed]; n != replays {
				t.Errorf("%v replays were counted of %v", n, replays)
			}
			if n := g.count(t, "select count(*) from effect"); n != keys || scraped[executed]+counted[executed]+unexplained != keys {
				t.Errorf("%d effects of %d operations; counted as executed: %v and %v, not counted %v", n, keys, scraped[executed], counted[executed], unexplained)
			}
		})
	}
}
