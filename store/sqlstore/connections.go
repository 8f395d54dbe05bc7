package sqlstore

import "github.com/oncelib/once/store"

var _ store.Pooled = (*Store)(nil)

// Connections implements [store.Pooled].
func (s *Store) Connections() store.Connections {
	stat := s.db.Stats()
	return store.Connections{InUse: stat.InUse, Idle: stat.Idle, Max: stat.MaxOpenConnections}
}
