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

	// The statement is a separate transaction. It fails instead of waiting for a lock, so it never causes a deadlock.
	mysqlBriefly = "set transaction isolation level read committed; set statement innodb_lock_wait_timeout = 0 for delete o from "

	// The first read finds the number of rows, and the expiry of the last row, without locks. So the second read, which
	// locks the rows that it reads, stops before any other row. Both reads use the index, whatever the optimizer of the server
	// expects.
	mysqlFound = "from once_operation force index (once_operation_expires_at) where state = 2 and expires_at between ? and "
	mysqlSweep = "begin not atomic declare n, last bigint; " +
		"select count(*), coalesce(max(at), 0) into n, last from (select expires_at as at " + mysqlFound + mysqlNow + " order by expires_at limit ?) as found; " +
		"if n > 0 then " + mysqlBriefly + "(select scope as s, `key` as k " + mysqlFound + "last order by expires_at limit n) as those " + mysqlByKey + " where " + mysqlExpired + "; end if; " +
		"select row_count(), n, last; end"
	mysqlByKey = "straight_join once_operation o force index (primary) on o.scope = those.s and o.`key` = those.k"
)

// mysqlSweeping is used if some of the rows are locked. At READ COMMITTED, InnoDB locks only the rows that are deleted,
// and no gaps between them. So new keys can be claimed meanwhile.
var mysqlSweeping = sweeping{isolation: store.ReadCommitted}

// mysqlPart is how many archived rows are deleted in one transaction.
const mysqlPart = 100

// sweepMySQL deletes with one statement as long as no row is locked, because this costs the server the least time. If
// another sweeper, or a claim of an expired key, has locked a row, sweepMySQL locks each row separately and skips the
// locked rows.
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
	if len(found.Rows) == 0 {
		return upkeep.Swept{Mark: req.After}, nil
	}
	if req.Archive != nil {
		if err := req.Archive(ctx, found.Rows); err != nil {
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

// sweepParts deletes the found rows in several transactions. After each transaction it pauses for as long as the
// transaction took. After an error, or after the end of ctx, a later sweep finds the rest.
func sweepParts(ctx context.Context, req upkeep.Sweep, found dialect.Batch, drop func([]upkeep.Expired) (int, error)) (all upkeep.Swept, err error) {
	for part := range slices.Chunk(found.Rows, mysqlPart) {
		began := time.Now()
		dropped, err := drop(part)
		if err != nil && all.Rows > 0 {
			// The earlier parts are committed. The caller gets their number, and continues at this part.
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
	all.More, all.Mark = found.More(req.Limit), found.Rows[len(found.Rows)-1].At
	return all, nil
}

// sweepAtOnce deletes expired rows with one statement. If done is false, nothing was deleted.
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

// deleteMySQL runs a compound statement that deletes rows, and returns the number of rows. It scans further results
// into the parameter into. If done is false, nothing was deleted, because a row is locked or the connection was broken
// before.
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

// deleteUnlocked deletes the rows that are not locked and have not changed. It finds the rows without locks, and then
// locks them by the primary key. Claims also begin at the primary key, and transactions with the same lock order do not
// deadlock.
func (s *Store) deleteUnlocked(ctx context.Context, found []upkeep.Expired) (int, error) {
	same := map[string]bool{}
	for _, e := range found {
		// Between the read and the lock, a key may be claimed again, with another nonce.
		same[string(e.Nonce)] = true
	}
	swept, err := s.sweeping(ctx, mysqlSweeping, func(tx *sql.Tx) (swept upkeep.Swept, err error) {
		those, values := thoseMySQL(found)
		locked, err := collectExpired(ctx, tx, fill("select o.scope, o.`key`, o.claim, o.expires_at from "+those+" where "+mysqlExpired+" for update skip locked", values...), scanSwept)
		free := slices.DeleteFunc(locked.Rows, func(e upkeep.Expired) bool { return !same[string(e.Nonce)] })
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
	if isLocked(err) { // the place of a row in an index is locked, so a later sweep deletes the rows
		return 0, nil
	}
	return swept.Rows, err
}

// thoseMySQL returns a join that reads the rows by their keys, one by one. With a condition on many keys, the server
// may read the whole table, and then wait for every lock in it.
func thoseMySQL(found []upkeep.Expired) (text string, values []any) {
	for _, e := range found {
		values = append(values, e.Scope, e.Key, e.Nonce)
	}
	return "(select ? as s, ? as k, ? as c" + strings.Repeat(" union all select ?, ?, ?", len(found)-1) +
		") those " + mysqlByKey, values
}

// thoseKept returns a compound statement that deletes the rows that have not changed.
func thoseKept(found []upkeep.Expired) string {
	those, values := thoseMySQL(found)
	return "begin not atomic " + fill(mysqlBriefly+those+" where "+mysqlExpired+" and o.claim = those.c", values...) + "; select row_count(); end"
}

func scanSwept(rows *sql.Rows) (e upkeep.Expired, err error) {
	err = rows.Scan(&e.Scope, &e.Key, &e.Nonce, (*dialect.Time)(&e.At))
	return e, err
}
