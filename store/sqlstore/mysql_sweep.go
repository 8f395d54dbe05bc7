package sqlstore

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/oncelib/once/store"
)

const (
	mysqlExpiring = " from once_operation where " + mysqlExpired + " and expires_at >= ? order by expires_at limit ?"
	mysqlKept     = "select scope, `key`, expires_at, " + mysqlColumns + mysqlExpiring
	mysqlSwept    = "select scope, `key`, claim, expires_at" + mysqlExpiring
)

// At READ COMMITTED InnoDB locks the rows that are deleted and no gaps between them, so
// that claims of new keys go on.
var mysqlSweeping = sweeping{isolation: store.ReadCommitted}

// What has expired is found without locks, and then locked by the primary key: that is
// where claims begin as well, and who locks in one order does not deadlock. Rows that
// somebody has locked, a sweeper or a claim of the expired key, are left to whoever that
// is.
func (s *Store) sweepMySQL(ctx context.Context, req store.Sweep) (store.Swept, error) {
	query, scan := mysqlSwept, scanSwept
	if req.Keep != nil {
		query, scan = mysqlKept, scanExpired
	}
	found, err := collectExpired(ctx, s.db, fill(query, req.After.UnixMilli(), int64(req.Limit)), scan)
	if err != nil {
		return store.Swept{}, s.notSwept(err)
	}
	swept := store.Swept{Mark: req.After, More: len(found) >= req.Limit}
	if len(found) == 0 {
		return swept, nil
	}
	if req.Keep != nil {
		if err := req.Keep(ctx, found); err != nil {
			return store.Swept{}, &store.Error{Kind: store.Other, Err: err}
		}
	}
	swept.Mark = found[len(found)-1].At
	same := map[string]bool{}
	for _, e := range found {
		same[string(e.Claim)] = true
	}
	return s.sweeping(ctx, mysqlSweeping, func(tx *sql.Tx) (store.Swept, error) {
		those, values := thoseMySQL(found)
		free, err := collectExpired(ctx, tx, fill("select o.scope, o.`key`, o.claim, o.expires_at from "+those+" where "+mysqlExpired+" for update skip locked", values...), scanSwept)
		free = slices.DeleteFunc(free, func(e store.Expired) bool { return !same[string(e.Claim)] })
		if err != nil || len(free) == 0 {
			return swept, err
		}
		those, values = thoseMySQL(free)
		_, err = tx.ExecContext(ctx, fill("delete o from "+those, values...))
		swept.Rows = len(free)
		return swept, err
	})
}

// thoseMySQL are rows by their keys, looked up one by one. A condition on many keys may
// be answered by looking at all rows there are, and that waits for everybody's locks.
func thoseMySQL(found []store.Expired) (text string, values []any) {
	for _, e := range found {
		values = append(values, e.Scope, e.Key)
	}
	return "(select ? as s, ? as k" + strings.Repeat(" union all select ?, ?", len(found)-1) +
		") those straight_join once_operation o force index (primary) on o.scope = those.s and o.`key` = those.k", values
}

func scanSwept(rows *sql.Rows) (e store.Expired, err error) {
	err = rows.Scan(&e.Scope, &e.Key, &e.Claim, (*moment)(&e.At))
	return e, err
}

func scanExpired(rows *sql.Rows) (e store.Expired, err error) {
	r, err := scan(rows, &e.Scope, &e.Key, (*moment)(&e.At))
	e.Record = r.Record
	return e, err
}

func collectExpired(ctx context.Context, from querier, query string, scan func(*sql.Rows) (store.Expired, error), args ...any) (found []store.Expired, err error) {
	rows, err := from.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		e, err := scan(rows)
		if err != nil {
			return nil, err
		}
		found = append(found, e)
	}
	return found, rows.Err()
}
