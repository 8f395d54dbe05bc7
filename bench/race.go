package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// contestant is one way to serve a request. run does it once, and is called by
// several goroutines.
type contestant struct {
	name string
	run  func(context.Context) error
	ops  int64 // so far, warm-up included
}

// race gives every contestant a short slice of time in turn, for many rounds: what
// else happens on the machine hits all of them, and a ratio is only ever taken
// between slices of one round.
type race struct {
	clients int
	rounds  int
	slice   time.Duration
	field   []*contestant
}

// pace is operations per second: by contestant, then round.
type pace map[string][]float64

// run runs the race. Every other round goes backwards, so that nobody always
// follows the same neighbour, or always has the younger table.
func (r race) run(ctx context.Context) (pace, error) {
	p := pace{}
	for _, c := range r.field { // statement caches, plans, first pages
		if _, err := r.stint(ctx, c, r.slice); err != nil {
			return nil, err
		}
	}
	for round := range r.rounds {
		for i := range r.field {
			if round%2 == 1 {
				i = len(r.field) - 1 - i
			}
			c := r.field[i]
			perSecond, err := r.stint(ctx, c, r.slice)
			if err != nil {
				return nil, err
			}
			p[c.name] = append(p[c.name], perSecond)
		}
	}
	return p, nil
}

// stint keeps all clients busy with c for about d.
func (r race) stint(ctx context.Context, c *contestant, d time.Duration) (perSecond float64, _ error) {
	var (
		wg    sync.WaitGroup
		ops   atomic.Int64
		fault atomic.Pointer[error]
	)
	began := time.Now()
	for range r.clients {
		wg.Go(func() {
			n := int64(0)
			for ; time.Since(began) < d && fault.Load() == nil; n++ {
				if err := c.run(ctx); err != nil {
					fault.CompareAndSwap(nil, &err)
					return
				}
			}
			ops.Add(n)
		})
	}
	wg.Wait()
	elapsed := time.Since(began)
	c.ops += ops.Load()
	if err := fault.Load(); err != nil {
		return 0, *err
	}
	return float64(ops.Load()) / elapsed.Seconds(), nil
}
