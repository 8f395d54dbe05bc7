// Package pgsql contains the PostgreSQL statements that pgxstore and sqlstore share, so that processes with either store can work
// on one table.
package pgsql

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/oncelib/once/store"
)

// MaxJoins is how many joined operations may hold their claims in one transaction. Each claim is a lock in a table of the server
// that all sessions share. The table has at least 6,400 places unless max_locks_per_transaction or max_connections are
// changed. When the table is full, every session fails.
const MaxJoins = 1000

// ErrMaxJoins is the error of a join beyond MaxJoins.
var ErrMaxJoins = fmt.Errorf("this transaction already holds the claims of %d operations of once.Join, and each claim is a lock of the server. Try: commit after fewer operations, or call once.Do for each operation", MaxJoins)

// LockID returns the advisory lock of an operation. It has 64 bits, so two operations practically never share a lock. If they
// do, one of them gets "in flight".
func LockID(id store.ID) int64 {
	h := sha256.Sum256([]byte("once\x00" + id.Scope + "\x00" + id.Key))
	return int64(binary.BigEndian.Uint64(h[:8]))
}

// Budget sets the remaining time in milliseconds, so that the server stops before the client closes the connection. It only
// shortens the statement_timeout of the session.
var Budget = `select ` + tighten("statement_timeout", "$1")

// Bounds is Budget, with a timeout for locks and a timeout for an idle transaction. The value "0" changes nothing.
var Bounds = Budget + `, ` + tighten("lock_timeout", "$2") + `, ` + tighten("idle_in_transaction_session_timeout", "$3")

// BoundsStart combines Bounds and Start, for a transaction that claims nothing. concat evaluates all its arguments.
var BoundsStart = `select now(), concat(` + tighten("statement_timeout", "$1") + `, ` + tighten("lock_timeout", "$2") + `, ` +
	tighten("idle_in_transaction_session_timeout", "$3") + `) is not null`

// Name sets the application_name until the transaction ends.
const Name = `select set_config('application_name', $1, true)`

// Bound returns d as an argument of Budget and Bounds.
func Bound(d time.Duration) string {
	if d <= 0 {
		return "0"
	}
	return strconv.FormatInt(min(max(1, d.Milliseconds()), math.MaxInt32), 10)
}

// tighten returns an expression that shortens a setting. It first compares the values as texts, because an interval is slow to
// parse, and most sessions have no timeout.
func tighten(setting, to string) string {
	current := `current_setting('` + setting + `')`
	return `case when ` + to + ` <> '0' and (` + current + ` = '0' or ` + current + `::interval > (` + to + ` || 'ms')::interval) then set_config('` + setting + `', ` + to + `, true) end`
}

// columns contains the columns of a record, in the order in which the stores scan them. columnsOrNone is for an outer join, which
// may find no record.
const (
	columns = `state, fence, claim, fingerprint, status, kind, head, body, request,
 coalesce(trace, ''), coalesce(name, ''), coalesce(point, ''), calling, data, coalesce(lease_until <= clock_timestamp(), false), since, coalesce(state = 2 and expires_at <= now(), false)`
	columnsOrNone = `coalesce(state, 0), coalesce(fence, 0), claim, fingerprint, coalesce(status, 0), coalesce(kind, 0), head, body, request,
 coalesce(trace, ''), coalesce(name, ''), coalesce(point, ''), coalesce(calling, false), data, coalesce(lease_until <= clock_timestamp(), false), coalesce(since, now()), coalesce(state = 2 and expires_at <= now(), false)`
)

const (
	// Read returns the columns of one record.
	Read = `select ` + columns + ` from once_operation where scope = $1 and key = $2`

	// ReadUnwatched is Read, but finds nothing in a transaction in which [watched] is true.
	ReadUnwatched = Read + ` and not (` + watched + `)`

	// Look is Read outside a transaction. It always returns one row: whether the server is in recovery, and then the columns. A
	// standby gets its records late, so a missing record on a standby proves nothing.
	Look = `select pg_is_in_recovery(), ` + columnsOrNone + ` from (select) one left join once_operation on scope = $1 and key = $2`

	// Lock returns the start of the transaction, whether the claim was granted, whether the server is in recovery, and
	// [watched]. On a standby the claim is granted even if a transaction on the primary holds it. In a pipeline, Lock and Read
	// cost the server less than Claim, and at READ COMMITTED the look-up is younger than the lock.
	Lock = `select now(), pg_try_advisory_xact_lock($1), pg_is_in_recovery(), ` + watched

	// LockOrFail divides by zero if the claim is not granted, so that the later statements of the pipeline do not run.
	LockOrFail = `select now(), 1 / (pg_try_advisory_xact_lock($1) and not pg_is_in_recovery())::int = 1`

	// LockAbsentOrFail is LockOrFail, but also fails if a record with scope $2 and key $3 exists, even an expired one, or if
	// the transaction is SERIALIZABLE (see [watched]). As in Claim, the snapshot may be older than the lock. Then the primary
	// key refuses the record at the end.
	LockAbsentOrFail = `select now(), 1 / (pg_try_advisory_xact_lock($1) and not pg_is_in_recovery()
 and current_setting('transaction_isolation') <> 'serializable'
 and not exists (select from once_operation where scope = $2 and key = $3))::int = 1`

	// Claim combines Lock and ReadUnwatched in one statement, for callers without pipelines.
	//
	// The snapshot of this statement may be older than its lock. Then it misses a record, the insert fails on the primary key
	// at the end, and the operation starts again.
	Claim = `select now(), pg_try_advisory_xact_lock($3), pg_is_in_recovery(), ` + watched + `, ` + columnsOrNone + `
 from (select) one left join (select * from once_operation where scope = $1 and key = $2 and not (` + watched + `)) found on true`

	// watched reports whether PostgreSQL tracks the reads of the transaction, for SERIALIZABLE (SSI). PostgreSQL tracks the
	// whole index page on which a record would be, and all new keys are on one page. So operations that look up and then insert
	// all conflict with each other. Inserts alone do not conflict. So the look-up is done in a separate transaction before, or
	// by Probe.
	watched = `current_setting('transaction_isolation') = 'serializable' and current_setting('transaction_read_only') = 'off'`

	// Probe looks a record up without a read that SSI tracks. If no record exists, it inserts a row, which must then be undone.
	// If the transaction cannot see the existing record, it causes a serialization error.
	Probe = `insert into once_operation (scope, key, claim) values ($1, $2, '') on conflict do nothing`

	// Late reports whether BeginOptions.StaleAfter has passed. It is asked after the look-up, and not at the start of the
	// transaction, because a record may expire and be deleted between the two.
	Late = `select clock_timestamp() >= $1`

	// Start returns the start of the transaction, which distinguishes the transaction from others on the same connection.
	Start = `select now()`

	// Expired removes a record that counts as absent.
	Expired = `delete from once_operation where scope = $1 and key = $2 and state = 2 and expires_at <= now()`

	// Synced makes the commit of a transaction that has only read wait for the standby.
	Synced = `select pg_logical_emit_message(true, 'once', '')`
)

// InsertDone writes the record of an atomic operation with one insert: no update, and no dead row. Its last argument is the start
// of the transaction that holds the claim. In any other transaction (the handler has sent "commit; begin") it divides by
// zero.
const InsertDone = `insert into once_operation (scope, key, claim, fingerprint, status, kind, head, body, expires_at, state)
 values ($1, $2, $3, $4, $5, $6, $7, $8, clock_timestamp() + $9 * interval '1 ms', 2 / (now() = $10)::int)`

// InsertDoneRequest is InsertDone with the request, the trace and the name, each of which may be empty.
const InsertDoneRequest = `insert into once_operation (scope, key, claim, fingerprint, status, kind, head, body, expires_at, state, request, trace, name)
 values ($1, $2, $3, $4, $5, $6, $7, $8, clock_timestamp() + $9 * interval '1 ms', 2 / (now() = $10)::int, $11, nullif($12, ''), nullif($13, ''))`

// InsertClaim is InsertDone for a transaction without a claim, and claims, too. It divides by zero if another transaction holds
// the claim, and does not wait.
const InsertClaim = `insert into once_operation (scope, key, claim, fingerprint, status, kind, head, body, expires_at, state)
 values ($1, $2, $3, $4, $5, $6, $7, $8, clock_timestamp() + $9 * interval '1 ms', 2 / pg_try_advisory_xact_lock($10)::int)`

// InsertClaimRequest is InsertClaim with the request, the trace and the name, each of which may be empty.
const InsertClaimRequest = `insert into once_operation (scope, key, claim, fingerprint, status, kind, head, body, expires_at, state, request, trace, name)
 values ($1, $2, $3, $4, $5, $6, $7, $8, clock_timestamp() + $9 * interval '1 ms', 2 / pg_try_advisory_xact_lock($10)::int, $11, nullif($12, ''), nullif($13, ''))`

// TryClaim divides by zero if another transaction holds the claim. It does not wait.
const TryClaim = `select 1 / pg_try_advisory_xact_lock($1)::int`

// InTime divides by zero if StaleAfter, of BeginOptions or of a Change, has passed. It comes after the insert, so that an
// existing record is reported first.
const InTime = `select 1 / (clock_timestamp() < $1)::int`

// SameTransaction divides by zero unless the transaction began at $1, the time that Lock or Start has returned. The handler may
// have sent "commit; begin". InsertDone makes this check by itself.
const SameTransaction = `select 1 / (now() = $1)::int`

// Expecting wraps a write, which must have no RETURNING clause. The statement fails on the server, and fails its transaction,
// unless it affects n rows. It fails by a cast of a text, and [WrongRows] recognises the error.
func Expecting(sql string, n string) string {
	return "with once_write as (" + strings.Trim(sql, "; \t\r\n") + "\nreturning 1) select case count(*) when " + n +
		" then 1 else (count(*) || '" + affected + n + "')::int end from once_write"
}

const affected = " rows affected, expected: "

// WrongRows reports whether an error comes from [Expecting].
func WrongRows(sqlState, message string) bool {
	return sqlState == InvalidText && strings.Contains(message, affected)
}

// Classify returns the meaning of an SQLSTATE for the transaction.
func Classify(sqlState string) store.Kind {
	switch sqlState {
	case "40001", Deadlock:
		return store.KindRetry
	case "25P02":
		return store.KindAborted
	case "55P03", QueryCanceled, "25P03", "25P04": // timeouts: for a lock, a statement, an idle transaction, a transaction
		return store.KindBusy
	case "57P01", "57P02", "57P03", "40003": // 40003: it is not known whether the statement has completed
		return store.KindLost
	}
	if strings.HasPrefix(sqlState, "08") {
		return store.KindLost
	}
	return store.KindOther
}

// Unwritable reports whether this database cannot store a text: the text contains a NUL or does not fit the encoding. Another
// try would fail, too.
func Unwritable(sqlState string) bool { return sqlState == "22021" || sqlState == "22P05" }

// Taken reports whether the statement that writes the record has failed because the stored record is not the expected one.
func Taken(sqlState string) bool { return sqlState == UniqueViolation || sqlState == DivisionByZero }

// These are SQLSTATEs that the code compares.
const (
	Deadlock        = "40P01"
	UniqueViolation = "23505"
	DivisionByZero  = "22012"
	OutOfRange      = "22003" // see SwapKeepSame
	InvalidText     = "22P02"
	PlanChanged     = NotSupported
	UndefinedTable  = "42P01"
	UndefinedColumn = "42703"
	QueryCanceled   = "57014"
	NoStatement     = "26000"
	ReadOnly        = "25006"
	NotSupported    = "0A000"

	DuplicateStatement = "42P05"
)

// ErrRecovery is the error of a server in recovery. The stores treat it as unavailable: its locks exclude no session on the
// primary, and its records are late.
var ErrRecovery = errors.New("the PostgreSQL server is a standby (in recovery), which cannot claim operations and may not have the newest records. Try: target_session_attrs=read-write in the connection string")

// StandbyRefuses reports whether an error may come from a standby, which neither writes nor begins a SERIALIZABLE transaction.
// Recovery finds out whether the server is a standby.
func StandbyRefuses(sqlState string) bool { return sqlState == ReadOnly || sqlState == NotSupported }

// Recovery asks whether the server is in recovery.
const Recovery = `select pg_is_in_recovery()`

// MigrationLock makes migrations that start at the same time run in sequence.
const MigrationLock = `select pg_advisory_xact_lock(7881702260482471168)`

// MigrateTries is how often a migration is tried if a concurrent migration interferes, because the server keeps no advisory
// locks.
const MigrateTries = 3

// Overtaken reports whether a migration may have failed because a concurrent migration has created the same table.
func Overtaken(sqlState string) bool {
	switch sqlState {
	case UniqueViolation, Deadlock, "40001", "42P07", "42701", "42710": // a table, column or constraint exists already
		return true
	}
	return false
}
