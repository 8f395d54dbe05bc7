package sqlstore

import (
	"database/sql"

	"github.com/oncelib/once/store"
)

var _ store.Reserver = (*Store)(nil)

// Reserve implements [store.Reserver].
func (s *Store) Reserve() (own store.Database, release func(), err error) {
	if s.file != nil {
		return s, func() {}, nil
	}
	db := sql.OpenDB(s.connector)
	db.SetMaxOpenConns(1)
	return &Store{db: db, dialect: s.dialect, connector: s.connector, schema: s.schema, compound: s.compound, serializable: s.serializable}, func() { _ = db.Close() }, nil
}
