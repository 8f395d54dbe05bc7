package sqlstore

import (
	"database/sql"

	"github.com/oncelib/once/store/sqlplane"
)

var _ sqlplane.Reserver = (*Store)(nil)

// Reserve implements [sqlplane.Reserver].
func (s *Store) Reserve() (own sqlplane.Database, release func(), err error) {
	// On SQLite the writers of a file wait in one queue, so a second connection would not help.
	if s.file != nil {
		return s, func() {}, nil
	}
	db := sql.OpenDB(s.connector)
	db.SetMaxOpenConns(1)
	return &Store{db: db, dialect: s.dialect, connector: s.connector, byCommit: s.byCommit, schema: s.schema, compound: s.compound, several: s.several, serializable: s.serializable}, func() { _ = db.Close() }, nil
}
