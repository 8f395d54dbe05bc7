package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/upkeep"
)

const (
	mysqlExpiring = " from once_operation where " + mysqlExpired + " and expires_at >= ? order by expires_at limit ?"
	mysqlKept     = "select scope, `key`, expires_at, " + mysqlColumns + mysqlExpiring
	mysqlSwept    = "select scope, `key`, claim, expires_at" + mysqlExpiring

	// A statement that is a transaction of its own, and fails instead of waiting for a lock: so it
	// is part of no deadlock.
	mysqlBriefly = "set transaction isolation level read committed; set statement innodb_lock_wait_timeout = 0 for delete o from "

	// The number of rows, and the moment of the last one, are found first, without
	// locks. So the second read, which locks the rows that it reads, stops before any other
	// row. Both use the index, however large a part of the table the server expects.
	mysqlFound = "from once_operation force index (once_operation_expires_at) where state = 2 and expires_at between ? and "
	mysqlSweep = "begin not atomic declare n, last bigint; " +
		"select count(*), coalesce(max(at), 0) into n, last from (select expires_at as at " + mysqlFound + mysqlNow + " order by expires_at limit ?) as found; " +
		"if n > 0 then " + mysqlBriefly + "(select scope as s, `key` as k " + mysqlFound + "last order by expires_at limit n) as those " + mysqlByKey + " where " + mysqlExpired + "; end if; " +
		"select row_count(), n, last; end"
	mysqlByKey = "straight_join once_operation o force index (primary) on o.scope = those.s and o.`key` = those.k"
)

// mysqlSweeping is for rows of which some are locked. At READ COMMITTED InnoDB locks the
// rows that are deleted and no gaps between them, so that claims of new keys go on.
var mysqlSweeping = sweeping{isolation: store.ReadCommitted}

// mysqlPart is how many rows that were kept are deleted in one transaction.
const mysqlPart = 100

// sweepMySQL deletes in one statement as long as no row is locked, because that costs the server the least
// time. If another sweeper, or a claim of an expired key, has locked a row, it locks the rows one by one and
// skips the locked ones.
func (s *Store) sweepMySQL(ctx context.Context, req upkeep.Sweep) (upkeep.Swept, error) {
	query, scan := mysqlSwept, scanSwept
	if req.Archive != nil {
		query, scan = mysqlKept, scanExpired
	} else if s.compound {
		if swept, done, err := s.sweepAtOnce(ctx, req); done {
			return swept, err
		}
	}
	found, err := collectExpired(ctx, s.db, fill(query, req.After.UnixMilli(), int64(req.Limit)), scan)
	if err != nil {
		return upkeep.Swept{}, s.notSwept(err)
	}
	if len(found) == 0 {
		return upkeep.Swept{Mark: req.After}, nil
	}
	if req.Archive != nil {
		if err := req.Archive(ctx, found); err != nil {
			return upkeep.Swept{}, &store.Error{Kind: store.KindOther, Err: err}
		}
	}
	return sweepParts(ctx, req, found, func(part []upkeep.Expired) (int, error) {
		if s.compound && req.Archive != nil {
			if rows, done, err := s.deleteMySQL(ctx, thoseKept(part)); done {
				return rows, err
			}
		}
		return s.deleteUnlocked(ctx, part)
	})
}

// sweepParts deletes the found rows in as many transactions as needed, and pauses after each for as
// long as it took. After an error, or when ctx is over, a later sweep finds the rest.
func sweepParts(ctx context.Context, req upkeep.Sweep, found []upkeep.Expired, drop func([]upkeep.Expired) (int, error)) (all upkeep.Swept, err error) {
	for part := range slices.Chunk(found, mysqlPart) {
		began := time.Now()
		dropped, err := drop(part)
		if err != nil && all.Rows > 0 {
			// The earlier parts are committed: the caller gets their number, and continues here.
			all.More, all.Mark = true, part[0].At
			return all, nil
		}
		if err != nil {
			return upkeep.Swept{}, err
		}
		all.Rows += dropped
		select {
		// Requests get at least half of the server's time.
		case <-time.After(time.Since(began)):
		case <-ctx.Done(): // the next transaction returns the error of ctx
		}
	}
	all.More, all.Mark = len(found) >= req.Limit, found[len(found)-1].At
	return all, nil
}

func (s *Store) sweepAtOnce(ctx context.Context, req upkeep.Sweep) (swept upkeep.Swept, done bool, err error) {
	var found, last int64
	after := req.After.UnixMilli()
	rows, done, err := s.deleteMySQL(ctx, fill(mysqlSweep, after, int64(req.Limit), after), &found, &last)
	switch {
	case err != nil:
		return upkeep.Swept{}, done, err
	case found == 0:
		return upkeep.Swept{Mark: req.After}, done, nil
	}
	return upkeep.Swept{Rows: rows, More: found >= int64(req.Limit), Mark: time.UnixMilli(last)}, done, nil
}

// deleteMySQL runs a compound that deletes rows and returns their number, and
// its other results in into. done is false, and nothing is deleted, if a row is locked, or if the
// connection was broken before.
func (s *Store) deleteMySQL(ctx context.Context, compound string, into ...any) (rows int, done bool, err error) {
	conn, err := s.acquire(ctx, store.BeginOptions{})
	if err != nil {
		return 0, true, s.down(err)
	}
	defer func() { _ = conn.Close() }()
	err = conn.QueryRowContext(sqlguard.OwnText(ctx), compound).Scan(append([]any{&rows}, into...)...)
	switch {
	case err == nil:
		return rows, true, nil
	case isLocked(err), errors.Is(err, driver.ErrBadConn):
		return 0, false, nil
	case sqlguard.MySQL.Refused(err):
		return 0, true, s.down(err)
	}
	return 0, true, &store.Error{Kind: store.KindLost, Err: err}
}

// deleteUnlocked deletes the rows that are not locked and have not changed. It finds them without locks, and
// then locks them by the primary key, because claims also begin there, and transactions that lock in one order
// do not deadlock.
func (s *Store) deleteUnlocked(ctx context.Context, found []upkeep.Expired) (int, error) {
	same := map[string]bool{}
	for _, e := range found {
		// A key may be claimed again, under another nonce, between the read and the lock.
		same[string(e.Nonce)] = true
	}
	swept, err := s.sweeping(ctx, mysqlSweeping, func(tx *sql.Tx) (swept upkeep.Swept, err error) {
		those, values := thoseMySQL(found)
		free, err := collectExpired(ctx, tx, fill("select o.scope, o.`key`, o.claim, o.expires_at from "+those+" where "+mysqlExpired+" for update skip locked", values...), scanSwept)
		free = slices.DeleteFunc(free, func(e upkeep.Expired) bool { return !same[string(e.Nonce)] })
		if err != nil || len(free) == 0 {
			return swept, err
		}
		those, values = thoseMySQL(free)
		remove := fill("delete o from "+those, values...)
		if s.compound {
			remove = noWait(remove)
		}
		_, err = tx.ExecContext(ctx, remove)
		swept.Rows = len(free)
		return swept, err
	})
	if isLocked(err) { // the place of a row in an index: the rows go the next time
		return 0, nil
	}
	return swept.Rows, err
}

// thoseMySQL joins to the rows by their keys, one by one. For a condition on many keys the server may
// read all rows of the table, and then wait for every lock on them.
func thoseMySQL(found []upkeep.Expired) (text string, values []any) {
	for _, e := range found {
		values = append(values, e.Scope, e.Key, e.Nonce)
	}
	return "(select ? as s, ? as k, ? as c" + strings.Repeat(" union all select ?, ?, ?", len(found)-1) +
		") those " + mysqlByKey, values
}

// thoseKept is a compound that deletes them, if they are still the same.
func thoseKept(found []upkeep.Expired) string {
	those, values := thoseMySQL(found)
	return "begin not atomic " + fill(mysqlBriefly+those+" where "+mysqlExpired+" and o.claim = those.c", values...) + "; select row_count(); end"
}

func scanSwept(rows *sql.Rows) (e upkeep.Expired, err error) {
	err = rows.Scan(&e.Scope, &e.Key, &e.Nonce, (*dialect.Time)(&e.At))
	return e, err
}

func scanExpired(rows *sql.Rows) (e upkeep.Expired, err error) {
	r, err := scan(rows, &e.Scope, &e.Key, (*dialect.Time)(&e.At))
	e.Record = r.Record
	return e, err
}

func collectExpired(ctx context.Context, from querier, query string, scan func(*sql.Rows) (upkeep.Expired, error), args ...any) (found []upkeep.Expired, err error) {
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
