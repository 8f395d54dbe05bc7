package retry_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/oncelib/once/retry"
)

var (
	errBench = errors.New("no")
	sink     int
)

//go:noinline
func succeed(context.Context, int) error { sink++; return nil }

//go:noinline
func failOnce(_ context.Context, attempt int) error {
	sink++
	if attempt == 1 {
		return errBench
	}
	return nil
}

// failOnceAndLook does what a driver does with its context.
func failOnceAndLook(ctx context.Context, attempt int) error {
	if attempt > 1 {
		select {
		case <-ctx.Done():
		default:
		}
	}
	return failOnce(ctx, attempt)
}

// The bars: a success costs at most 15 ns, a retry without a pause at most 30 ns more
// than its two calls; neither allocates. With Total, as it is by default, a retry reads
// the clock, which is most of that already, and allocates the context of the attempt.
func BenchmarkDoWithRetries(b *testing.B) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	due, stop := context.WithTimeout(ctx, time.Hour)
	defer stop()
	unbounded := func() *retry.Policy { return &retry.Policy{Base: -1, Total: -1, Budget: &retry.Budget{Percent: 100}} }
	bounded := func() *retry.Policy { return &retry.Policy{Base: -1, Budget: &retry.Budget{Percent: 100}} }
	for _, c := range []struct {
		name   string
		ctx    context.Context //nolint:containedctx // a table
		policy *retry.Policy
		fn     func(context.Context, int) error
	}{
		{"ok", ctx, nil, succeed},
		{"ok/budget", ctx, unbounded(), succeed},
		{"retry", ctx, unbounded(), failOnce},
		{"retry/total", ctx, bounded(), failOnce},
		{"retry/total/used", ctx, bounded(), failOnceAndLook},
		{"retry/total+deadline", due, &retry.Policy{Base: -1, Total: 2 * time.Hour, Budget: &retry.Budget{Percent: 100}}, failOnce},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if retry.Do(c.ctx, c.policy, c.fn) != nil {
					b.Fatal("failed")
				}
			}
		})
	}
	b.Run("bare/ok", func(b *testing.B) {
		for b.Loop() {
			_ = succeed(ctx, 1)
		}
	})
	b.Run("bare/retry", func(b *testing.B) {
		for b.Loop() {
			_, _ = failOnce(ctx, 1), failOnce(ctx, 2)
		}
	})
}

func BenchmarkBudgetParallel(b *testing.B) {
	var full retry.Budget
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			full.Succeed()
		}
	})
}
