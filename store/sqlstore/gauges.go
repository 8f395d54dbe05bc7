package sqlstore

import (
	"context"

	"github.com/oncelib/once/gauge"
)

// PoolGauges is a [gauge.Func]: how many connections the pool has. It asks only the pool, so that it also tells when
// none is free. A pool without a limit has no [gauge.PoolMaxConnections].
func (s *Store) PoolGauges(context.Context) ([]gauge.Value, error) {
	stat := s.db.Stats()
	values := []gauge.Value{
		{Name: gauge.PoolConnections, Label: "in_use", Number: float64(stat.InUse)},
		{Name: gauge.PoolConnections, Label: "idle", Number: float64(stat.Idle)},
	}
	if stat.MaxOpenConnections > 0 {
		values = append(values, gauge.Value{Name: gauge.PoolMaxConnections, Number: float64(stat.MaxOpenConnections)})
	}
	return values, nil
}
