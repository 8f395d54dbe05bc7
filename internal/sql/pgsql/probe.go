package pgsql

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"strconv"
)

// Some servers that speak the protocol of PostgreSQL accept advisory locks and do nothing (CockroachDB before
// 2026). There "no record, and the claim is free" does not prove that a commit whose answer was
// lost was not applied, and operations are claimed by their commits (store.CommitClaimer). A lock that no operation has
// finds out which kind of server it is. If pg_locks lists the lock, the server keeps it: that takes one statement, and no second
// connection. If not, the server keeps locks only if it refuses this one to a second session: newer
// servers keep locks that they do not list. The statements have no parameters, so that any mode of any driver can send them.

// ProbeKey returns the key of a lock that no other session has.
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

// ExcludesLock reports whether a session keeps a lock from a second one. It takes two connections of db.
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
