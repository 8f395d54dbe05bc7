package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/oncelib/once/retention"
	"github.com/oncelib/once/store"
)

// sweeping shows the effect of a sweeper on requests, on each database.
type sweeping []sweepingFigure

type sweepingFigure struct {
	Database string           `json:"database"`
	Offered  int              `json:"offered_per_second"`
	P50      [2]time.Duration `json:"p50_ns"` // without and with
	P99      [2]time.Duration `json:"p99_ns"`
	Ratios   [2]verdict       `json:"ratios"` // of p50 and p99; least and most bound 90 % of the resamples
	Removed  float64          `json:"removed_per_second"`
	Rounds   int              `json:"rounds"`
}

const (
	sweepBar     = 1.2
	sweepRate    = 10_000 // rows per second
	sweepClients = 16
	sweepWindow  = 3 * time.Second
	sweepBlur    = time.Second // at the beginning of a window the one before still has an effect: InnoDB cleans up once a second
)

// sweepField is a database with operations that have expired, and others.
type sweepField struct {
	name    string
	offered int // requests per second, below the capacity of this machine
	run     func(context.Context) error
	sweeps  store.Operations
	expire  func(ctx context.Context, rows int) error
	close   func() error
}

func (b *bench) sweeping(ctx context.Context) (s sweeping, err error) {
	pairs := 12
	if b.quick {
		pairs = 1
	}
	for _, open := range []func(context.Context) (*sweepField, error){b.sweepPostgres, b.sweepMariaDB, b.sweepSQLite, b.sweepSQLiteSorted} {
		f, err := open(ctx)
		if err != nil {
			return nil, err
		}
		figure, err := f.measure(ctx, pairs)
		if err = errors.Join(err, f.close()); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		s = append(s, figure)
	}
	return s, nil
}

// measure sends requests at fixed moments, without a pause, and lets the sweeper work in half of the windows: other load of the machine hits both
// kinds of windows.
func (f *sweepField) measure(ctx context.Context, pairs int) (figure sweepingFigure, err error) {
	length := time.Duration(2*pairs) * sweepWindow
	expired := int((length / 2).Seconds() * sweepRate * 1.05) // so that the sweeper never runs dry
	if err := f.expire(ctx, expired); err != nil {
		return figure, err
	}
	if _, err := f.offer(ctx, time.Second, time.Now()); err != nil { // statement caches
		return figure, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	began := time.Now()
	sweeper := retention.New(f.sweeps, retention.Config{Rate: sweepRate, Observe: func(retention.Pass) {
		_ = untilSwept(ctx, began) // holds the sweeper up
	}})
	rows, swept := 0, make(chan error, 1)
	go func() {
		err := untilSwept(ctx, began)
		if err == nil {
			rows, err = sweeper.Sweep(ctx)
		}
		swept <- err
	}()
	took, err := f.offer(ctx, length, began)
	stop()
	if failed := <-swept; err == nil && failed != nil && !errors.Is(failed, context.Canceled) {
		err = failed
	}
	if err != nil {
		return figure, err
	}
	figure = f.judge(took, pairs)
	figure.Removed = float64(rows) / (length / 2).Seconds()
	return figure, nil
}

// sweptAt reports whether the sweeper works at a moment. The order of the two kinds alternates.
func sweptAt(since time.Duration) bool {
	w := int(since / sweepWindow)
	return (w%2 == 1) != (w/2%2 == 1)
}

// untilSwept returns in the next window in which the sweeper works.
func untilSwept(ctx context.Context, began time.Time) error {
	for {
		since := time.Since(began)
		if sweptAt(since) {
			return ctx.Err()
		}
		select {
		case <-time.After(sweepWindow - since%sweepWindow):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// offer sends requests at fixed moments, whether or not earlier ones have been answered,
// and returns how long after its moment each of them was.
func (f *sweepField) offer(ctx context.Context, d time.Duration, began time.Time) ([]time.Duration, error) {
	took := make([]time.Duration, int(d.Seconds()*float64(f.offered)))
	errs := make([]error, sweepClients)
	var group sync.WaitGroup
	for client := range sweepClients {
		group.Go(func() {
			for i := client; i < len(took) && errs[client] == nil; i += sweepClients {
				due := began.Add(f.due(i))
				select {
				case <-time.After(time.Until(due)):
				case <-ctx.Done():
					errs[client] = ctx.Err()
					return
				}
				errs[client] = f.run(ctx)
				took[i] = time.Since(due)
			}
		})
	}
	group.Wait()
	return took, errors.Join(errs...)
}

func (f *sweepField) due(i int) time.Duration {
	return time.Duration(i) * time.Second / time.Duration(f.offered)
}

// judge compares the windows of both kinds. Drawing pairs of windows again and again shows how far chance could have moved the ratio.
func (f *sweepField) judge(took []time.Duration, pairs int) sweepingFigure {
	windows := make([][2][]time.Duration, pairs)
	for i, d := range took {
		due := f.due(i)
		if due%sweepWindow < sweepBlur {
			continue
		}
		kind := 0
		if sweptAt(due) {
			kind = 1
		}
		pair := &windows[due/(2*sweepWindow)]
		pair[kind] = append(pair[kind], d)
	}
	figure := sweepingFigure{Database: f.name, Offered: f.offered, Rounds: pairs}
	all := make([]int, pairs)
	for i := range all {
		all[i] = i
	}
	pooled := pool(windows, all)
	var drawn [2][]float64
	for range 200 {
		for i := range all {
			all[i] = rand.N(pairs)
		}
		again := pool(windows, all)
		for i, p := range []int{50, 99} {
			drawn[i] = append(drawn[i], percentile(again[1], p)/percentile(again[0], p))
		}
	}
	for i, p := range []int{50, 99} {
		v := verdict{What: fmt.Sprintf("p%d", p), AtMost: true, Median: percentile(pooled[1], p) / percentile(pooled[0], p)}
		slices.Sort(drawn[i])
		v.Min, v.Max = drawn[i][len(drawn[i])/20], drawn[i][len(drawn[i])*19/20]
		if p == 99 {
			v.Bar = sweepBar
		}
		figure.Ratios[i] = v.judged()
	}
	for kind := range pooled {
		figure.P50[kind] = time.Duration(percentile(pooled[kind], 50))
		figure.P99[kind] = time.Duration(percentile(pooled[kind], 99))
	}
	return figure
}

// pool sorts the joined values of the windows of some pairs.
func pool(windows [][2][]time.Duration, pairs []int) (both [2][]time.Duration) {
	for _, i := range pairs {
		for kind := range both {
			both[kind] = append(both[kind], windows[i][kind]...)
		}
	}
	slices.Sort(both[0])
	slices.Sort(both[1])
	return both
}

func percentile(sorted []time.Duration, p int) float64 {
	return float64(sorted[min(len(sorted)-1, len(sorted)*p/100)])
}

func (s sweeping) write(p printer) {
	p("\n## Beside a sweeper\n")
	p("Requests are due at fixed moments, each of them an execution; an answer's time counts from the moment at which its request")
	p("was due. In every other window of %v a sweeper removes expired operations, at most %s a second; the first second of", sweepWindow, thousands(sweepRate))
	p("a window, in which a server may still be busy with the one before, does not count. Ratios are those of all answers of the")
	p("one kind to all of the other [90 %% of what is found when pairs of windows are drawn again].\n")
	p("| | requests a second | p50 without, with | p99 without, with | p50 ratio | p99 ratio | bar | | removed a second |")
	p("|---|---|---|---|---|---|---|---|---|")
	for _, f := range s {
		m := f.Ratios[0]
		p("| %s | %d | %s, %s | %s, %s | %.2f [%.2f .. %.2f] | %s | %s |", f.Database, f.Offered, millis(f.P50[0]), millis(f.P50[1]),
			millis(f.P99[0]), millis(f.P99[1]), m.Median, m.Min, m.Max, f.Ratios[1].cells(), thousands(int64(f.Removed)))
	}
}
