package integration

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/oncelib/once/internal/testenv"
)

// supervise starts a server again whenever it has ended, as who runs it in earnest
// does, and closes it with the test.
func supervise(t *testing.T, m *testenv.MariaDB) (deaths func() int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	var n atomic.Int64
	group.Go(func() {
		for {
			select {
			case <-m.Done():
			case <-ctx.Done():
				return
			}
			n.Add(1)
			_ = m.Restart(ctx) // it may not be able to, as long as its disk is full
		}
	})
	t.Cleanup(func() {
		cancel()
		group.Wait()
		_ = m.Close()
	})
	return n.Load
}
