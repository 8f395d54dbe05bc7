package killstorm

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// killAll kills the service once for each number in s.kills. Each kill happens at a random moment after a request of the order with this
// number, or of a later order, was sent.
func (s *Storm) killAll(ctx context.Context) error {
	rng := rand.New(rand.NewPCG(s.Seed, 1<<62))
	before := 0
	for _, at := range s.kills {
		if !s.reached.wait(ctx, at+1, forever) || !s.sent.wait(ctx, before+1, forever) {
			return nil // the storm was cancelled; the caller sees that in ctx
		}
		if err := sleep(ctx, time.Duration(rng.Int64N(int64(killDelay)))); err != nil {
			return nil //nolint:nilerr // likewise
		}
		if err := s.kill(ctx); err != nil {
			return err
		}
		s.tally.killed()
		s.progress()
		if err := s.Server.start(ctx); err != nil {
			return err
		}
		before = s.sent.value()
		s.done.count()
	}
	return nil
}

// killDelay is as long as a few requests: so a kill meets a request that has just arrived, one in the middle of its commit, or one whose
// answer is on its way.
const killDelay = 15 * time.Millisecond

const forever = time.Duration(1<<63 - 1)

// meter is a number that only grows, and for which goroutines can wait.
type meter struct {
	mu    sync.Mutex
	n     int
	grown chan struct{} // closed when n has grown
}

func newMeter() *meter { return &meter{grown: make(chan struct{})} }

func (m *meter) count() { m.set(func() int { return m.n + 1 }) }

func (m *meter) raise(to int) { m.set(func() int { return max(m.n, to) }) }

func (m *meter) set(next func() int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.n = next()
	close(m.grown)
	m.grown = make(chan struct{})
}

func (m *meter) value() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.n
}

// wait waits until the number is at least want, and reports whether it is. It reports false when patience is over or ctx ends.
func (m *meter) wait(ctx context.Context, want int, patience time.Duration) bool {
	over := time.NewTimer(patience)
	defer over.Stop()
	for {
		m.mu.Lock()
		enough, grown := m.n >= want, m.grown
		m.mu.Unlock()
		if enough {
			return true
		}
		select {
		case <-grown:
		case <-over.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}
