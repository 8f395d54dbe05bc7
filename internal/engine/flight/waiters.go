package flight

import (
	"context"
	"fmt"
	"time"
)

// waiters counts the calls that wait for another one, and what they keep in memory.
type waiters struct {
	maxCalls int
	maxBytes int64
	calls    int
	bytes    int64
}

// enter counts one more call that waits, unless there are too many.
func (g *Group) enter(bytes int64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := &g.waiters
	if w.calls >= w.maxCalls || w.bytes+bytes > w.maxBytes {
		return fmt.Errorf("%d duplicates with %d bytes wait in this process already, at most %d (Config.MaxWaiting) with %d bytes (Config.MaxWaitingBytes) may. Try: again a little later", w.calls, w.bytes, w.maxCalls, w.maxBytes)
	}
	w.calls++
	w.bytes += bytes
	return nil
}

// exit ends what enter has begun.
func (g *Group) exit(bytes int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiters.calls--
	g.waiters.bytes -= bytes
}

// Pause waits for d as one of the calls that wait, and keeps bytes in memory. It returns an
// error if too many wait already, and reports whether ctx goes on.
func (g *Group) Pause(ctx context.Context, bytes int64, d time.Duration) (goesOn bool, err error) {
	if err := g.enter(bytes); err != nil {
		return false, err
	}
	defer g.exit(bytes)
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true, nil
	case <-ctx.Done():
		return false, nil
	}
}
