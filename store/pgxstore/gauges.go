package pgxstore

import (
	"context"

	"github.com/oncelib/once/gauge"
)

// PoolGauges is a [gauge.Func]: how many connections the pool has. It asks only the pool, so that it also tells when
// none is free.
func (s *Store) PoolGauges(context.Context) ([]gauge.Value, error) {
	stat := s.pool.Stat()
	return []gauge.Value{
		{Name: gauge.PoolConnections, Label: "in_use", Number: float64(stat.AcquiredConns())},
		{Name: gauge.PoolConnections, Label: "idle", Number: float64(stat.IdleConns())},
		{Name: gauge.PoolMaxConnections, Number: float64(stat.MaxConns())},
	}, nil
}
