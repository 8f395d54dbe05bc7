package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"sync"

	"github.com/oncelib/once/store"
)

// Warm opens connections until the pool has n connections, or as many as the limit of the pool allows. Call
// Warm before the service accepts requests, so that the first requests do not wait for new connections. A
// [sql.DB] keeps only two idle connections unless SetMaxIdleConns allows more: if the [sql.DB] closes the
// remaining connections, Warm returns an error. The text of an error says how many connections are open.
func (s *Store) Warm(ctx context.Context, n int) error {
	before := s.db.Stats()
	if before.MaxOpenConnections > 0 {
		n = min(n, before.MaxOpenConnections)
	}
	var group sync.WaitGroup
	var mu sync.Mutex
	var held []*sql.Conn // held until all are open, because the pool would otherwise return the same connection again
	var failed error
	for range n {
		group.Go(func() {
			conn, err := s.acquire(ctx, store.BeginOptions{})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = err
				return
			}
			held = append(held, conn)
		})
	}
	group.Wait()
	for _, conn := range held {
		_ = conn.Close() // returns the connection to the pool
	}
	if failed != nil {
		return fmt.Errorf("sqlstore: Warm has opened %d of %d connections: %w. Try: check the limits of the server (max_connections) and of the database user", len(held), n, s.down(failed))
	}
	if closed := s.db.Stats().MaxIdleClosed - before.MaxIdleClosed; closed > 0 {
		return fmt.Errorf("sqlstore: Warm has opened %d connections, but the pool has closed %d of them again. Try: SetMaxIdleConns(%d)", n, closed, n)
	}
	return nil
}
