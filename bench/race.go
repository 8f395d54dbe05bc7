package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// contestant is one way to serve a request. run does it once, and is called by
// several goroutines.
type contestant struct {
	name   string
	before func() // every slice; may be nil
	run    func(context.Context) error
	ops    int64 // so far, warm-up included
	laps   []lap // one a round
}

// lap is what a contestant has done in a slice, per operation.
type lap struct {
	wall           time.Duration
	client, server time.Duration // CPU time
	ops            int64
}

func (l lap) cpu() time.Duration { return l.client + l.server }

// race gives every contestant a short slice of time in turn, for many rounds: what
// else happens on the machine hits all of them, and a ratio is only ever taken
// between slices of one round.
type race struct {
	clients int
	rounds  int
	slice   time.Duration
	cpu     cpu
	field   []*contestant
}

// run runs the race. Every round has an order of its own, so that none always
// follows the same neighbour, or always has the younger table.
func (r race) run(ctx context.Context) error {
	for _, c := range r.field { // statement caches, plans, first pages
		if _, err := r.stint(ctx, c); err != nil {
			return err
		}
	}
	for range r.rounds {
		for _, i := range rand.Perm(len(r.field)) {
			l, err := r.stint(ctx, r.field[i])
			if err != nil {
				return err
			}
			r.field[i].laps = append(r.field[i].laps, l)
		}
	}
	return nil
}

// stint keeps all clients busy with c for a slice.
func (r race) stint(ctx context.Context, c *contestant) (lap, error) {
	var (
		wg    sync.WaitGroup
		ops   atomic.Int64
		fault atomic.Pointer[error]
	)
	if c.before != nil {
		c.before()
	}
	client, server := r.cpu.used()
	began := time.Now()
	for range r.clients {
		wg.Go(func() {
			for n := int64(1); fault.Load() == nil; n++ {
				if err := c.run(ctx); err != nil {
					fault.CompareAndSwap(nil, &err)
					return
				}
				if time.Since(began) >= r.slice {
					ops.Add(n)
					return
				}
			}
		})
	}
	wg.Wait()
	wall := time.Since(began)
	client2, server2 := r.cpu.used()
	if err := fault.Load(); err != nil {
		return lap{}, *err
	}
	n := ops.Load()
	c.ops += n
	return lap{wall / time.Duration(n), (client2 - client) / time.Duration(n), (server2 - server) / time.Duration(n), n}, nil
}
