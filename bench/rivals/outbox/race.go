package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// producer is one way to publish an event with a business transaction.
type producer struct {
	name string
	run  func(context.Context) error
	laps []float64 // transactions per second, one a round
}

// race gives every producer a slice of time in turn, in another order each round.
type race struct {
	rounds int
	slice  time.Duration
}

func (r race) run(ctx context.Context, field []*producer) error {
	for _, p := range field { // statement caches, plans, first pages
		if _, err := r.lap(ctx, p); err != nil {
			return err
		}
	}
	for range r.rounds {
		for _, i := range rand.Perm(len(field)) {
			perSecond, err := r.lap(ctx, field[i])
			if err != nil {
				return err
			}
			field[i].laps = append(field[i].laps, perSecond)
		}
	}
	return nil
}

func (r race) lap(ctx context.Context, p *producer) (perSecond float64, err error) {
	var wg sync.WaitGroup
	var done atomic.Int64
	errs := make([]error, clients)
	began := time.Now()
	for client := range clients {
		wg.Go(func() {
			for n := int64(1); ; n++ {
				if errs[client] = p.run(ctx); errs[client] != nil {
					return
				}
				if time.Since(began) >= r.slice {
					done.Add(n)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, fmt.Errorf("%s: %w", p.name, err)
	}
	return float64(done.Load()) / time.Since(began).Seconds(), nil
}

func (p *producer) perSecond() float64 { return median(slices.Clone(p.laps)) }

// ratio is p against other, round by round.
func (p *producer) ratio(other *producer) string {
	if p == other {
		return ""
	}
	var all []float64
	for i, lap := range p.laps {
		all = append(all, lap/other.laps[i])
	}
	return fmt.Sprintf("**%.2f** [%.2f .. %.2f]", median(all), slices.Min(all), slices.Max(all))
}

// median sorts v.
func median(v []float64) float64 {
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

func find(field []*producer, name string) *producer {
	return field[slices.IndexFunc(field, func(p *producer) bool { return p.name == name })]
}
