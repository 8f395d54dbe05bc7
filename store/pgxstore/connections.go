package pgxstore

import "github.com/oncelib/once/store"

var _ store.Pooled = (*Store)(nil)

// Connections implements [store.Pooled].
func (s *Store) Connections() store.Connections {
	stat := s.pool.Stat()
	return store.Connections{InUse: int(stat.AcquiredConns()), Idle: int(stat.IdleConns()), Max: int(stat.MaxConns())}
}
