package pgxstore

import (
	"github.com/oncelib/once/store/upkeep"
)

var _ upkeep.Pooled = (*Store)(nil)

// Connections implements [upkeep.Pooled].
func (s *Store) Connections() upkeep.Connections {
	stat := s.pool.Stat()
	return upkeep.Connections{InUse: int(stat.AcquiredConns()), Idle: int(stat.IdleConns()), Max: int(stat.MaxConns())}
}
