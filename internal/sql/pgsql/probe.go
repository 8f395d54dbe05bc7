package pgsql

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"strconv"
)

// Some servers that speak the protocol of PostgreSQL accept advisory locks without effect (CockroachDB before 2026). On such a
// server, a missing record and a free claim do not prove that a lost commit was not applied, so operations are claimed by
// their commits (store.CommitClaimer). A lock that no operation uses finds out whether a server keeps locks. If pg_locks
// lists the lock, the server keeps it. This needs one statement, and no second connection. If pg_locks does not list it, a
// second session tries the lock: newer servers keep locks without listing them. The statements have no parameters, so that
// every driver can send them in every mode.

// ProbeKey returns the random key of a lock that no other session uses.
func ProbeKey() int64 { return rand.Int64() }

// ListedLock takes the lock of key, and returns whether pg_locks lists it, and the version of the server.
func ListedLock(key int64) string {
	return `with claim as materialized (select pg_try_advisory_xact_lock(` + strconv.FormatInt(key, 10) + `::bigint) as granted)
 select (select count(*) from pg_locks where claim.granted and granted and locktype = 'advisory' and pid = pg_backend_pid()
 and classid::bigint = ` + strconv.FormatInt(key>>32, 10) + ` and objid::bigint = ` + strconv.FormatInt(key&0xffffffff, 10) + `) = 1, version() from claim`
}

// TryLock takes the lock of key until the transaction ends, and returns whether it was free.
func TryLock(key int64) string {
	return `select pg_try_advisory_xact_lock(` + strconv.FormatInt(key, 10) + `::bigint)`
}

// ExcludesLock reports whether a session cannot take a lock that another session holds. It uses two connections of db.
func ExcludesLock(ctx context.Context, db *sql.DB) (excludes bool, err error) {
	key := ProbeKey()
	first, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = first.Rollback() }()
	var granted, second bool
	if err := first.QueryRowContext(ctx, TryLock(key)).Scan(&granted); err != nil {
		return false, err
	}
	err = db.QueryRowContext(ctx, TryLock(key)).Scan(&second)
	return err == nil && granted && !second, err
}

// Unkept is logged once if a server does not keep advisory locks.
const Unkept = "once: this server keeps no advisory locks, so each commit claims its operation: two processes may run the handler of one operation at the same time, and only one of them commits"
