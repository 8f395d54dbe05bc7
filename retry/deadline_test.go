package retry_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once/retry"
)

type keyOfTest struct{}

// What fn starts may ask all of it, at any time.
func TestBoundedIsSafe(t *testing.T) {
	p := &retry.Policy{Base: -1, Attempts: 2, Timeout: time.Hour, Budget: &retry.Budget{Burst: -1}}
	for range 200 {
		var wg sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		_ = retry.Do(ctx, p, func(ctx context.Context, _ int) error {
			for _, ask := range []func(){
				func() { <-ctx.Done() },
				func() {
					for ctx.Err() == nil {
						runtime.Gosched()
					}
				},
				func() { _, _ = ctx.Deadline() },
				func() { _ = ctx.Value(keyOfTest{}) },
				func() { _ = context.Cause(ctx) },
				func() { _ = fmt.Sprint(ctx) },
				func() {
					child, stop := context.WithCancel(ctx)
					defer stop()
					<-child.Done()
				},
				func() {
					ran := make(chan struct{})
					context.AfterFunc(ctx, func() { close(ran) })
					<-ran
				},
			} {
				wg.Go(ask)
			}
			return context.DeadlineExceeded
		})
		wg.Wait() // all of them were told that the attempt is over
		cancel()
	}
}
