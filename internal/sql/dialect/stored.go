package dialect

import (
	"strconv"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/upkeep"
)

// Stored returns the query of [upkeep.Measurer], and its arguments. A [StoredPage] reads its rows.
func Stored(d sqlplane.Dialect, after store.ID, limit int) (query string, args []any) {
	behind, args := "(scope, KEY) > (?, ?)", []any{after.Scope, after.Key}
	if d == sqlplane.MySQL { // which finds no beginning in an index by a comparison of rows
		behind, args = "(scope > ? or (scope = ? and KEY > ?))", []any{after.Scope, after.Scope, after.Key}
	}
	const size = "case when state = 2 and expires_at <= NOW then 0 else coalesce(length(head), 0) + coalesce(length(body), 0) + coalesce(length(request), 0) + coalesce(length(data), 0) + "
	return Text(d, "select scope, max(name), count(*), sum(bytes) from (select scope, KEY as name, "+size+strconv.Itoa(upkeep.RecordSize)+" end as bytes"+
		" from once_operation where "+behind+" order by scope, KEY limit "+strconv.Itoa(limit)+") as page group by scope order by scope"), args
}

// StoredPage is what a [Stored] query has returned.
type StoredPage struct {
	List []upkeep.Stored
	read int
	last store.ID
}

// Add adds a row.
func (p *StoredPage) Add(row interface{ Scan(dest ...any) error }) error {
	var s upkeep.Stored
	var key string
	var n int
	if err := row.Scan(&s.Scope, &key, &n, &s.Bytes); err != nil {
		return err
	}
	p.List, p.read, p.last = append(p.List, s), p.read+n, store.ID{Scope: s.Scope, Key: key}
	return nil
}

// Next is where the next page begins, if this one, of up to limit operations, is full.
func (p *StoredPage) Next(limit int) (next store.ID) {
	if p.read == limit {
		next = p.last
	}
	return next
}
