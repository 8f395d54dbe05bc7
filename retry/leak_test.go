package retry_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelib/once/retry"
)

// foreign is a context that package context does not know: what is derived from it has a
// goroutine until it has ended.
type foreign struct {
	context.Context //nolint:containedctx // it is one

	done chan struct{}
}

func (f foreign) Done() <-chan struct{} { return f.done }

// After 10,000 calls with a retry each, the contexts of all their attempts have ended, and
// there is no goroutine more than before.
func TestDoLeaksNothing(t *testing.T) {
	for name, p := range map[string]retry.Policy{
		"Total":             {},
		"Timeout and Total": {Timeout: time.Hour, Total: 2 * time.Hour},
	} {
		p.Base, p.Budget = -1, &retry.Budget{Burst: -1}
		bounded := 2 // attempts, whose context is made for them
		if p.Timeout == 0 {
			bounded = 1 // the first one has the caller's
		}
		before := runtime.NumGoroutine()
		ctx := foreign{context.Background(), make(chan struct{})}
		const calls = 10_000
		attempts, contexts, ended := 0, 0, new(atomic.Int32)
		for range calls {
			err := retry.Do(ctx, &p, func(own context.Context, attempt int) error {
				attempts++
				if own != context.Context(ctx) {
					contexts++
					context.AfterFunc(own, func() { ended.Add(1) })
				}
				if attempt == 1 {
					return errors.New("reset")
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if attempts != 2*calls || contexts != bounded*calls {
			t.Errorf("%s: vacuous: %d attempts and %d contexts in %d calls", name, attempts, contexts, calls)
		}
		deadline := time.Now().Add(time.Minute)
		for runtime.NumGoroutine() > before || int(ended.Load()) < contexts {
			if time.Now().After(deadline) {
				t.Fatalf("%s: there were %d goroutines, and there are %d; %d contexts of %d have ended", name, before, runtime.NumGoroutine(), ended.Load(), contexts)
			}
			<-time.After(time.Millisecond)
		}
	}
}
