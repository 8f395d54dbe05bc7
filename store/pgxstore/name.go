package pgxstore

import (
	"cmp"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/store"
)

// nameOf is what the names of all transactions begin with.
func nameOf(conn *pgx.ConnConfig) string {
	const longest = 63 - len(" 2c26b46b68ffc68f") // PostgreSQL cuts what is longer
	name := cmp.Or(conn.RuntimeParams["application_name"], "once")
	return strings.ToValidUTF8(name[:min(len(name), longest)], "")
}

func (s *Store) queueName(b *pipeline, id store.ID) {
	if s.name != "" && !id.IsZero() {
		b.queue(pgsql.Name, s.name+" "+keyname.Hashes(id.Key)[0])
	}
}
