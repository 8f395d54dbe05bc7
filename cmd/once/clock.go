package main

import (
	"database/sql"
	"fmt"
	"time"

	"github.com/oncelib/once/store/migration"
)

// clock is the database's own, by which everything is judged.
var clock = map[migration.Dialect]string{
	migration.PostgreSQL: "now()",
	migration.MySQL:      "(timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) div 1000)",
	migration.SQLite:     "cast(unixepoch('subsec') * 1000 as integer)",
}

// keyColumn is a word of MySQL's own that must be quoted there.
func keyColumn(d migration.Dialect) string {
	if d == migration.MySQL {
		return "`key`"
	}
	return "key"
}

// nullTime scans what the databases keep of a time: a timestamp, or milliseconds
// since 1970.
type nullTime struct{ at *time.Time }

func (n *nullTime) Scan(v any) error {
	var t time.Time
	switch v := v.(type) {
	case nil:
		return nil
	case time.Time:
		t = v
	case int64:
		t = time.UnixMilli(v)
	case float64: // of a lease or retention with a fraction of a millisecond
		t = time.UnixMilli(int64(v))
	default:
		return fmt.Errorf("a time stored as %T", v)
	}
	t = t.UTC().Truncate(time.Millisecond)
	n.at = &t
	return nil
}

var _ sql.Scanner = (*nullTime)(nil)
