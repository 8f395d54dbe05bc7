package main

import (
	"fmt"
	"runtime"
	"slices"
	"time"
)

// runner is one way to do a task.
type runner struct {
	name string
	run  func(n int) error // does it n times

	calls  func() int64 // number of requests that have arrived so far
	per    int64        // calls of one task
	n      int          // tasks in a slice
	laps   []float64    // nanoseconds a task, one a round
	allocs float64      // a task
}

// race gives every runner a short slice of time in turn, for many rounds: other load of the machine hits all of them, and they are compared round by
// round.
type race struct {
	rounds int
	slice  time.Duration
}

func (r race) run(field []*runner) error {
	for _, c := range field {
		if err := r.warm(c); err != nil {
			return err
		}
	}
	for round := range r.rounds {
		for i := range field {
			if round%2 == 1 {
				i = len(field) - 1 - i // none always follows the same neighbour
			}
			runtime.GC() // each pays for its own garbage
			took, err := field[i].stint(field[i].n)
			if err != nil {
				return err
			}
			field[i].laps = append(field[i].laps, float64(took)/float64(field[i].n))
		}
	}
	return nil
}

// warm finds out how many tasks fill a slice, and how often one allocates.
func (r race) warm(c *runner) error {
	for c.n = 16; ; c.n *= 2 {
		took, err := c.stint(c.n)
		if err != nil {
			return err
		}
		if took > r.slice/4 {
			c.n = max(1, int(float64(c.n)*float64(r.slice)/float64(took)))
			break
		}
	}
	var before, after runtime.MemStats
	few := min(c.n, 1000)
	runtime.ReadMemStats(&before)
	_, err := c.stint(few)
	runtime.ReadMemStats(&after)
	c.allocs = float64((after.Mallocs - before.Mallocs) / uint64(few))
	return err
}

// stint does n tasks, and fails if another number of calls has arrived.
func (c *runner) stint(n int) (time.Duration, error) {
	before := c.calls()
	start := time.Now()
	err := c.run(n)
	took := time.Since(start)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", c.name, err)
	}
	if did := c.calls() - before; did != int64(n)*c.per {
		return 0, fmt.Errorf("%s has not done the same work as the others: %d calls for %d tasks of %d", c.name, did, n, c.per)
	}
	return took, nil
}

// figure is what the rounds say.
type figure struct{ median, least, most float64 }

// against compares c with other, round by round.
func (c *runner) against(other *runner, compare func(a, b float64) float64) figure {
	all := make([]float64, len(c.laps))
	for i := range all {
		all[i] = compare(c.laps[i], other.laps[i])
	}
	slices.Sort(all)
	n := len(all)
	return figure{(all[(n-1)/2] + all[n/2]) / 2, all[0], all[n-1]}
}

func over(a, b float64) float64  { return a - b }
func ratio(a, b float64) float64 { return a / b }
