package main

import (
	"database/sql"
	"fmt"
	"time"

	"github.com/oncelib/once/internal/dialect"
	"github.com/oncelib/once/store"
)

// clock is the database's own, by which everything is judged.
var clock = map[store.Dialect]string{
	store.PostgreSQL: dialect.PostgreSQLNow,
	store.MySQL:      dialect.MySQLNow,
	store.SQLite:     "cast(unixepoch('subsec') * 1000 as integer)",
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
