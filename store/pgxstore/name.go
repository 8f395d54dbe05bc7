package pgxstore

import (
	"cmp"
	"strings"

	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/store"
)

// NameTransactions gives the transaction of each operation an application_name that ends with the hash of
// its key, such as "payments 2c26b46b68ffc68f": the one that [once.Log] writes as idempotency_key. The log of the
// server (log_line_prefix with %a) and pg_stat_activity then say of a statement of the handler, which waits for a lock
// or is slow, which operation it is of. It is sent with BEGIN, so it takes no round trip. Without a key, and in
// [once.Join], the name stays that of the connection. Call it before the store is used.
func (s *Store) NameTransactions() {
	const longest = 63 - len(" 2c26b46b68ffc68f") // PostgreSQL cuts what is longer
	name := cmp.Or(s.pool.Config().ConnConfig.RuntimeParams["application_name"], "once")
	s.name = strings.ToValidUTF8(name[:min(len(name), longest)], "")
}

func (s *Store) queueName(b *pipeline, id store.ID) {
	if s.name != "" && !id.IsZero() {
		b.queue(pgsql.Name, s.name+" "+keyname.Hashes(id.Key)[0])
	}
}
