// Package dialect has what differs in the SQL of the databases and is needed in several
// packages: placeholders, clocks, quoting.
package dialect

import (
	"strconv"
	"strings"

	"github.com/oncelib/once/store"
)

// The clocks of the databases: a timestamp on PostgreSQL, else milliseconds since 1970. None
// of them moves within one statement.
const (
	PostgreSQLNow = "now()"
	// MySQLNow is UTC: the clock of a session's time zone repeats or skips an hour twice a year.
	MySQLNow  = "(timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) div 1000)"
	SQLiteNow = "cast((julianday('now') - 2440587.5) * 86400000.0 as integer)"
)

// Numbered is a query with $1, $2, ... for its question marks.
func Numbered(query string) string {
	var b strings.Builder
	for i, piece := range strings.Split(query, "?") {
		if i > 0 {
			b.WriteString("$" + strconv.Itoa(i))
		}
		b.WriteString(piece)
	}
	return b.String()
}

// KeyColumn is the column key, a word of MySQL's own that must be quoted there.
func KeyColumn(d store.Dialect) string {
	if d == store.MySQL {
		return "`key`"
	}
	return "key"
}
