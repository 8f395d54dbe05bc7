package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	avast "github.com/avast/retry-go/v5"
	"github.com/cenkalti/backoff/v5"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/oncelib/once/retry"
	sethvargo "github.com/sethvargo/go-retry"
)

// work is the retried function. It fails every other time if the task needs one retry.
type work struct {
	n     int64
	fails bool

	failed time.Duration // time of the failure, if the runner notes it
}

var (
	errOnce      = errors.New("try again")
	errSethvargo = sethvargo.RetryableError(errOnce)
)

//go:noinline
func (w *work) do() error {
	w.n++
	if w.fails && w.n%2 == 1 {
		return errOnce
	}
	return nil
}

const attempts = 5

// floor is the cost of a hand-written retry with a budget, a counter and a bound in time: three atomic additions and a look at the clock.
const floor = "by hand, with a budget and the clock"

// loops are all retry loops. The first one is a hand-written loop with as many calls; loops whose name does not say otherwise get a context for each
// call.
func loops(ctx context.Context, w *work) []*runner {
	per := int64(1)
	if w.fails {
		per = 2
	}
	each := func(name string, do func() error) *runner {
		return &runner{name: name, calls: func() int64 { return w.n }, per: per, run: func(n int) error {
			for range n {
				if err := do(); err != nil {
					return err
				}
			}
			return nil
		}}
	}
	// This budget never runs out: it earns as much as it spends.
	waiting := &retry.Policy{Base: -1, Budget: &retry.Budget{Percent: 100}}
	ours := func(total time.Duration) func() error {
		p := &retry.Policy{Base: -1, Total: total, Budget: &retry.Budget{Percent: 100}}
		return func() error { return retry.Do(ctx, p, func(context.Context, int) error { return w.do() }) }
	}
	var bucket, spent atomic.Int64
	epoch := time.Now()
	reused := avast.New(avast.Attempts(attempts), avast.Delay(0), avast.DelayType(avast.FixedDelay), avast.LastErrorOnly(true))
	policy := retrypolicy.NewBuilder[any]().WithMaxRetries(attempts - 1).Build()
	executor := failsafe.With(policy)
	return []*runner{
		each("by hand", func() error {
			if err := w.do(); err != nil {
				return w.do()
			}
			return nil
		}),
		each("once", ours(0)),
		each("once, Total: -1", ours(-1)),
		each("once, waiting for its context", func() error {
			return retry.Do(ctx, waiting, func(ctx context.Context, _ int) error {
				select {
				case <-ctx.Done():
					return ctx.Err()
				default:
					return w.do()
				}
			})
		}),
		each("failsafe-go", func() error {
			return executor.WithContext(ctx).Run(w.do)
		}),
		each("cenkalti/backoff", func() error {
			_, err := backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, w.do() }, backoff.WithBackOff(&backoff.ZeroBackOff{}), backoff.WithMaxTries(attempts))
			return err
		}),
		each("sethvargo/go-retry", func() error {
			return sethvargo.Do(ctx, sethvargo.WithMaxRetries(attempts-1, sethvargo.BackoffFunc(func() (time.Duration, bool) { return 0, false })), func(context.Context) error {
				if w.do() != nil {
					return errSethvargo
				}
				return nil
			})
		}),
		each("avast/retry-go", func() error {
			return avast.New(avast.Context(ctx), avast.Attempts(attempts), avast.Delay(0), avast.DelayType(avast.FixedDelay), avast.LastErrorOnly(true)).Do(w.do)
		}),
		each("avast/retry-go, no context", func() error { return reused.Do(w.do) }),
		each("failsafe-go, no context", func() error { return executor.Run(w.do) }),
		each(floor, func() error {
			if err := w.do(); err == nil {
				return nil
			}
			bucket.Add(-1)
			spent.Add(1)
			w.failed = time.Since(epoch)
			err := w.do()
			bucket.Add(1)
			return err
		}),
	}
}
