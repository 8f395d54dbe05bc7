package pgxstore

import (
	"context"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/store"
)

// Warm opens connections until the pool has n connections, or as many as the limit of the pool allows, and
// checks the server. Call Warm before the service accepts requests, so that the first requests do not wait
// for new connections. Later the pool closes idle connections (MaxConnIdleTime), except for MinConns
// connections. If Warm returns an error, its text says how many connections are open.
func (s *Store) Warm(ctx context.Context, n int) error {
	n = min(n, int(s.pool.Config().MaxConns))
	var group sync.WaitGroup
	var mu sync.Mutex
	var held []*pgxpool.Conn // held until all are open, because the pool would otherwise return the same connection again
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
		conn.Release()
	}
	if failed != nil {
		return fmt.Errorf("pgxstore: Warm has opened %d of %d connections: %w. Try: check the limits of the server (max_connections) and of the database user", len(held), n, failed)
	}
	return nil
}
