package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/pgxstore"
	"github.com/oncelib/once/retention"
)

// sweeping is what requests feel of a sweeper that removes ten thousand rows a second.
type sweeping struct {
	Offered  int              `json:"offered_per_second"`
	Rows     int              `json:"rows"`
	Figures  []sweepingFigure `json:"figures"`
	Ratios   []verdict        `json:"ratios"`
	Removed  float64          `json:"removed_per_second"` // median of the rounds
	Achieved verdict          `json:"achieved"`
	rounds   int
}

type sweepingFigure struct {
	Name string        `json:"name"`
	P50  time.Duration `json:"p50_ns"`
	P99  time.Duration `json:"p99_ns"`
}

const (
	sweepBar     = 1.2
	sweepRate    = 10_000 // rows a second
	sweepOffered = 500    // requests a second, which leaves this machine room
	sweepClients = 16
)

// loadExpired makes operations that have expired, those of a second after each other.
const loadExpired = `
insert into once_operation (scope, key, claim, fingerprint, body, expires_at)
select 'expired', md5(g::text || clock_timestamp()), decode(md5(g::text), 'hex'), '\x00'::bytea || sha256(g::text::bytea), $1, now() - interval '1 hour' + g * interval '1 ms'
from generate_series(1, $2) g`

// sweeping offers the same requests at the same moments, in rounds without and with a
// sweeper beside them.
func (b *bench) sweeping(ctx context.Context) (*sweeping, error) {
	live, slice, rounds := 1_000_000, 2*time.Second, 20
	if b.quick {
		live, slice, rounds = 100_000, time.Second, 4
	}
	s, err := b.stock(ctx, "sweep", live, sweepClients)
	if s != nil {
		defer s.pool.Close()
	}
	if err != nil {
		return nil, err
	}
	sweepers, err := b.server.pool(ctx, s.pool.Config().ConnConfig.Database, 1, nil)
	if err != nil {
		return nil, err
	}
	defer sweepers.Close()
	body, err := newOrder().receipt()
	if err != nil {
		return nil, err
	}
	// 5 % more than can go in the time, so that the sweeper never runs dry.
	expired := int(slice.Seconds() * sweepRate * 1.05)
	sweeper, err := retention.New(pgxstore.New(sweepers), retention.Config{Rate: sweepRate})
	if err != nil {
		return nil, err
	}
	if _, err := offer(ctx, time.Second, s.sorted); err != nil { // statement caches
		return nil, err
	}
	var took [2][]time.Duration
	var p50, p99, removed []float64
	for round := range rounds {
		var one [2][]time.Duration
		for _, with := range []int{round % 2, 1 - round%2} {
			if err := prepareSweep(ctx, sweepers, body, expired); err != nil {
				return nil, err
			}
			var rate float64
			if one[with], rate, err = beside(ctx, slice, s.sorted, sweeper, with == 1); err != nil {
				return nil, err
			}
			if with == 1 {
				removed = append(removed, rate)
			}
			took[with] = append(took[with], one[with]...)
		}
		p50 = append(p50, float64(percentile(one[1], 50))/float64(percentile(one[0], 50)))
		p99 = append(p99, float64(percentile(one[1], 99))/float64(percentile(one[0], 99)))
	}
	r := &sweeping{Offered: sweepOffered, Rows: live, rounds: rounds}
	for i, name := range []string{"no sweeper", "beside a sweeper"} {
		r.Figures = append(r.Figures, sweepingFigure{name, percentile(took[i], 50), percentile(took[i], 99)})
	}
	r.Ratios = []verdict{absolute("p50 beside a sweeper / without", p50, 0), absolute("p99 beside a sweeper / without", p99, sweepBar)}
	r.Achieved = verdict{What: "rows removed a second", Bar: sweepRate * 0.95}
	r.Achieved.Median, r.Achieved.Min, r.Achieved.Max = spread(removed)
	r.Removed, r.Achieved = r.Achieved.Median, r.Achieved.judged()
	return r, nil
}

// prepareSweep leaves the same table behind, whoever was at it before.
func prepareSweep(ctx context.Context, pool *pgxpool.Pool, body []byte, expired int) error {
	if _, err := pool.Exec(ctx, "delete from once_operation where scope = 'expired'"); err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, loadExpired, body, expired); err != nil {
		return err
	}
	for _, sql := range []string{"vacuum analyze once_operation", "checkpoint"} {
		if _, err := pool.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// beside offers requests, and sweeps meanwhile if it is told so.
func beside(ctx context.Context, d time.Duration, run func(context.Context) error, sweeper *retention.Sweeper, sweeps bool) (took []time.Duration, removed float64, err error) {
	sweeping, stop := context.WithCancel(ctx)
	defer stop()
	var rows int
	var failed error
	var group sync.WaitGroup
	began := time.Now()
	if sweeps {
		group.Go(func() { rows, failed = sweeper.Sweep(sweeping) })
	}
	took, err = offer(ctx, d, run)
	wall := time.Since(began)
	stop()
	group.Wait()
	if failed != nil && !errors.Is(failed, context.Canceled) {
		err = errors.Join(err, failed)
	}
	return took, float64(rows) / wall.Seconds(), err
}

// offer sends requests at fixed moments, whether or not earlier ones have been answered,
// and returns how long after its moment each of them was.
func offer(ctx context.Context, d time.Duration, run func(context.Context) error) ([]time.Duration, error) {
	n := int(d.Seconds() * sweepOffered)
	took := make([]time.Duration, n)
	errs := make([]error, sweepClients)
	var group sync.WaitGroup
	began := time.Now()
	for client := range sweepClients {
		group.Go(func() {
			for i := client; i < n && errs[client] == nil; i += sweepClients {
				due := began.Add(time.Duration(i) * time.Second / sweepOffered)
				select {
				case <-time.After(time.Until(due)):
				case <-ctx.Done():
					errs[client] = ctx.Err()
					return
				}
				errs[client] = run(ctx)
				took[i] = time.Since(due)
			}
		})
	}
	group.Wait()
	return took, errors.Join(errs...)
}

func percentile(took []time.Duration, p int) time.Duration {
	s := slices.Sorted(slices.Values(took))
	return s[min(len(s)-1, len(s)*p/100)]
}

func (s *sweeping) write(p printer) {
	p("\n## Beside a sweeper\n")
	p("%s requests a second are due at fixed moments, each of them an execution, in a table of %s live operations; an answer's time", thousands(int64(s.Offered)), thousands(int64(s.Rows)))
	p("counts from the moment at which its request was due. %d rounds without and with a sweeper that removes expired operations.\n", s.rounds)
	p("| | p50 | p99 |")
	p("|---|---|---|")
	for _, f := range s.Figures {
		p("| %s | %s | %s |", f.Name, millis(f.P50), millis(f.P99))
	}
	p("\n| | ratio | bar | |")
	p("|---|---|---|---|")
	for _, v := range s.Ratios {
		p("| %s | %s |", v.What, v.cells())
	}
	p("\n%s", fmt.Sprintf("Removed: %s rows a second (median of the rounds; %s to %s), of the %s that are the sweeper's limit.",
		thousands(int64(s.Achieved.Median)), thousands(int64(s.Achieved.Min)), thousands(int64(s.Achieved.Max)), thousands(sweepRate)))
}
