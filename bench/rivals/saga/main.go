// Command saga compares what it costs to run three steps, each of which commits with a business write and can be found
// again after a crash: once, the same transactions by hand, DBOS and jobs of River that insert one another.
//
//	cd bench/rivals/saga && GOWORK=off go run . -o RESULTS.md
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/bench/rivals/frame"
	"github.com/oncelib/once/internal/testenv"
)

func main() { frame.Main("few and short rounds", report) }

const clients = 16

// contestant is one way to run three steps.
type contestant struct {
	name  string
	run   func(ctx context.Context, key string) error
	ops   int64
	taken time.Duration
}

func (c *contestant) perSecond() float64 { return float64(c.ops) / c.taken.Seconds() }

// slice keeps all clients busy for a while. counts says that it counts.
func (c *contestant) slice(ctx context.Context, d time.Duration, counts bool) error {
	var all sync.WaitGroup
	var done atomic.Int64
	errs := make([]error, clients)
	began := time.Now()
	for client := range clients {
		all.Go(func() {
			for errs[client] == nil && time.Since(began) < d {
				errs[client] = c.run(ctx, newKey())
				done.Add(1)
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	if counts {
		c.ops += done.Load()
		c.taken += time.Since(began)
	}
	return nil
}

// report is the whole file.
func report(ctx context.Context, quick bool) (_ string, err error) {
	rounds, slice := 10, time.Second
	if quick {
		rounds, slice = 3, 300*time.Millisecond
	}
	before := frame.Load()
	pg, err := frame.Postgres(ctx)
	if err != nil {
		return "", err
	}
	defer func() { _ = pg.Close() }() // the janitor of testenv removes what stays
	var field []*contestant
	for _, make := range []func(context.Context, *pgxpool.Pool) (run func(context.Context, string) error, end func(), err error){byHand, ours, ourBatches, dbosWorkflow, riverChain} {
		c := &contestant{name: names[len(field)]}
		pool, err := openPool(ctx, pg, fmt.Sprint("rival", len(field)))
		if err != nil {
			return "", err
		}
		defer pool.Close()
		run, end, err := make(ctx, pool)
		if err != nil {
			return "", fmt.Errorf("%s: %w", c.name, err)
		}
		defer end()
		c.run = run
		field = append(field, c)
	}
	for round := range rounds + 1 { // the first one fills caches
		for _, i := range rand.Perm(len(field)) {
			if err := field[i].slice(ctx, slice, round > 0); err != nil {
				return "", err
			}
		}
	}
	return write(field, rounds, slice, before), nil
}

// openPool makes a database with a table of the user.
func openPool(ctx context.Context, pg *testenv.Postgres, database string) (*pgxpool.Pool, error) {
	if err := pg.CreateDatabase(database); err != nil {
		return nil, err
	}
	cfg, err := pgxpool.ParseConfig(pg.URL(database))
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = clients
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	_, err = pool.Exec(ctx, "create table booking (id text primary key, account text not null, cents bigint not null)")
	return pool, err
}

func write(field []*contestant, rounds int, slice time.Duration, before string) string {
	var w strings.Builder
	p := func(format string, a ...any) { fmt.Fprintf(&w, format+"\n", a...) }
	p("<!-- Generated: cd bench/rivals/saga && GOWORK=off go run . -o RESULTS.md -->")
	p("# Three steps that survive a crash")
	p("")
	p("Repeat with `cd bench/rivals/saga && GOWORK=off go run . -o RESULTS.md`. %s, Go %s, %d cores, a private PostgreSQL with",
		time.Now().UTC().Format(time.DateOnly), strings.TrimPrefix(runtime.Version(), "go"), runtime.NumCPU())
	p("fsync on, %d clients on the same machine, a pool of as many connections for each contestant. A step is one insert, and its result is", clients)
	p("stored in the same commit. **DBOS** runs each step by RunAsTransaction on the pool of its system database; it has no undo. **River**: the")
	p("worker of a step commits its insert, the end of its job and the job of the next step; it fetches at most every millisecond, the least that")
	p("it accepts, and has no result of a step and no undo. Neither is made for this alone: both have much that is not measured here.")
	p("Sums over %d alternating slices of %s. Load average of the machine: %s before and %s after the run.", rounds, slice, before, frame.Load())
	p("")
	p("| | sagas a second | of the transactions by hand | saga.Do against it |")
	p("|---|---|---|---|")
	for _, c := range field {
		p("| %s | %.0f | **%.2f** | **%.1f** |", c.name, c.perSecond(), c.perSecond()/field[0].perSecond(), field[1].perSecond()/c.perSecond())
	}
	return w.String()
}
