package dialect

import (
	"context"
	"strconv"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/upkeep"
)

// Measurer returns the measurer of s: s itself, or a query if s stores its operations in an SQL database.
func Measurer(s any) (m upkeep.Measurer, ok bool) {
	if m, ok = store.As[upkeep.Measurer](s); ok {
		return m, true
	}
	db, ok := store.As[sqlplane.Database](s)
	return measurer{db}, ok
}

// measurer measures by the primary key. On a standby it measures the records of the standby.
type measurer struct{ sqlplane.Database }

// Stored implements [upkeep.Measurer].
func (m measurer) Stored(ctx context.Context, after store.ID, limit int) (list []upkeep.Stored, next store.ID, err error) {
	read := 0
	query, args := stored(m.Dialect(), after, limit)
	err = m.Pool().Query(ctx, store.Statement{SQL: query, Args: args}, func(row sqlplane.Row) error {
		var s upkeep.Stored
		var key string
		var n int
		if err := row.Scan(&s.Scope, &key, &n, &s.Bytes); err != nil {
			return err //nolint:wrapcheck // the driver's error is clear by itself
		}
		list, read = append(list, s), read+n
		if next = (store.ID{}); read == limit { // the page is full, so the next page begins after this row
			next = store.ID{Scope: s.Scope, Key: key}
		}
		return nil
	})
	if err != nil {
		return nil, store.ID{}, err //nolint:wrapcheck // the store's error is clear by itself
	}
	return list, next, nil
}

// stored returns the query and its arguments.
func stored(d sqlplane.Dialect, after store.ID, limit int) (query string, args []any) {
	behind, args := "(scope, KEY) > (?, ?)", []any{after.Scope, after.Key}
	if d == sqlplane.MySQL { // MySQL does not use an index for a comparison of rows
		behind, args = "(scope > ? or (scope = ? and KEY > ?))", []any{after.Scope, after.Scope, after.Key}
	}
	const size = "case when state = 2 and expires_at <= NOW then 0 else coalesce(length(head), 0) + coalesce(length(body), 0) + coalesce(length(request), 0) + coalesce(length(data), 0) + "
	return Text(d, "select scope, max(name), count(*), sum(bytes) from (select scope, KEY as name, "+size+strconv.Itoa(upkeep.RecordSize)+" end as bytes"+
		" from once_operation where "+behind+" order by scope, KEY limit "+strconv.Itoa(limit)+") as page group by scope order by scope"), args
}
