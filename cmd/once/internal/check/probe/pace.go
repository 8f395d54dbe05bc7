package probe

import (
	"context"
	"sync"
	"time"
)

// pace lets at most limit requests begin within any second; zero means no limit.
type pace struct {
	limit int
	now   func() time.Time
	wait  func(ctx context.Context, d time.Duration) error

	mu   sync.Mutex
	sent []time.Time // the times of the last requests, at most limit
}

// take waits until n requests may begin at the same time.
func (p *pace) take(ctx context.Context, n int) error {
	if p.limit == 0 {
		return ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n = min(n, p.limit)
	if over := len(p.sent) + n - p.limit; over > 0 {
		if d := p.sent[over-1].Add(time.Second).Sub(p.now()); d > 0 {
			if err := p.wait(ctx, d); err != nil {
				return err
			}
		}
		p.sent = p.sent[over:]
	}
	for range n {
		p.sent = append(p.sent, p.now())
	}
	return ctx.Err()
}

// wait waits for d, or until ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
