package sqlstore

import (
	"github.com/oncelib/once/store/upkeep"
)

var _ upkeep.Pooled = (*Store)(nil)

// Connections implements [upkeep.Pooled].
func (s *Store) Connections() upkeep.Connections {
	stat := s.db.Stats()
	return upkeep.Connections{InUse: stat.InUse, Idle: stat.Idle, Max: stat.MaxOpenConnections}
}
