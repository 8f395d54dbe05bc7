package sqlstore

import (
	"context"
	"database/sql"
	"strings"

	"github.com/oncelib/once/store"
)

const (
	mysqlExpiring = " from once_operation where " + mysqlExpired + " and expires_at >= ? order by expires_at limit ?"

	// Rows that somebody has locked, a sweeper or a claim of the expired key, are left to
	// whoever that is.
	mysqlSwept = "select scope, `key`, claim, expires_at" + mysqlExpiring + " for update skip locked"
	mysqlKept  = "select scope, `key`, expires_at, " + mysqlColumns + mysqlExpiring
)

// At READ COMMITTED InnoDB locks the rows that are deleted and no gaps between them, so
// that claims of new keys go on.
var mysqlSweeping = sweeping{isolation: store.ReadCommitted}

func (s *Store) sweepMySQL(ctx context.Context, req store.Sweep) (store.Swept, error) {
	after := req.After.UnixMilli()
	if req.Keep == nil {
		return s.sweeping(ctx, mysqlSweeping, func(tx *sql.Tx) (store.Swept, error) {
			found, err := collectExpired(ctx, tx, fill(mysqlSwept, after, int64(req.Limit)), func(rows *sql.Rows) (e store.Expired, err error) {
				return e, rows.Scan(&e.Scope, &e.Key, &e.Claim, (*moment)(&e.At))
			})
			if err != nil {
				return store.Swept{Mark: req.After}, err
			}
			return dropMySQL(ctx, tx, req, found)
		})
	}
	// Kept outside of a transaction: who asks for an expired key meanwhile is not held up.
	found, err := collectExpired(ctx, s.db, fill(mysqlKept, after, int64(req.Limit)), scanExpired)
	if err == nil && len(found) > 0 {
		if err := req.Keep(ctx, found); err != nil {
			return store.Swept{}, &store.Error{Kind: store.Other, Err: err}
		}
	}
	if err != nil {
		return store.Swept{}, s.notSwept(err)
	}
	return s.sweeping(ctx, mysqlSweeping, func(tx *sql.Tx) (store.Swept, error) { return dropMySQL(ctx, tx, req, found) })
}

// dropMySQL deletes what is still the same.
func dropMySQL(ctx context.Context, tx *sql.Tx, req store.Sweep, found []store.Expired) (store.Swept, error) {
	if len(found) == 0 {
		return store.Swept{Mark: req.After}, nil
	}
	values := make([]any, 0, 3*len(found))
	for _, e := range found {
		values = append(values, e.Scope, e.Key, notNil(e.Claim))
	}
	text := "delete from once_operation where " + mysqlExpired + " and (scope, `key`, claim) in (" + strings.Repeat("(?, ?, ?), ", len(found)-1) + "(?, ?, ?))"
	r, err := tx.ExecContext(ctx, fill(text, values...))
	if err != nil {
		return store.Swept{}, err
	}
	n, err := r.RowsAffected()
	return store.Swept{Rows: int(n), More: len(found) >= req.Limit, Mark: found[len(found)-1].At}, err
}

// notNil is a claim as it is stored.
func notNil(b []byte) []byte { return append([]byte{}, b...) }

func scanExpired(rows *sql.Rows) (e store.Expired, err error) {
	r, err := scan(rows, &e.Scope, &e.Key, (*moment)(&e.At))
	e.Record = r.Record
	return e, err
}

func collectExpired(ctx context.Context, from querier, query string, scan func(*sql.Rows) (store.Expired, error)) (found []store.Expired, err error) {
	rows, err := from.QueryContext(ctx, query)
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
