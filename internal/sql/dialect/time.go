package dialect

import (
	"fmt"
	"strconv"
	"time"

	"github.com/oncelib/once/store/sqlplane"
)

// Time scans a time that a database has stored: row.Scan((*dialect.Time)(&at)). NULL becomes the zero time.
type Time time.Time

// Scan implements sql.Scanner, which pgx also supports.
func (t *Time) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*t = Time{}
	case time.Time:
		*t = Time(v.UTC())
	case int64:
		*t = Time(time.UnixMilli(v).UTC())
	case float64: // from SQLite, if a lease or retention has a fraction of a millisecond
		*t = Time(time.UnixMilli(int64(v)).UTC())
	case []byte: // from older releases of MySQL's driver
		ms, err := strconv.ParseInt(string(v), 10, 64)
		if err != nil {
			return fmt.Errorf("the database has returned %q, which is not a time", v)
		}
		*t = Time(time.UnixMilli(ms).UTC())
	default:
		return fmt.Errorf("the database has returned a value of type %T, which is not a time", v)
	}
	return nil
}

// StoredTime returns t as an argument of a statement. The zero time becomes NULL.
func StoredTime(d sqlplane.Dialect, t time.Time) any {
	switch {
	case t.IsZero():
		return nil
	case d == sqlplane.PostgreSQL:
		return t
	}
	return t.UnixMilli()
}
