// Package sqlguard lets a transaction of database/sql commit only if every
// statement in it succeeded.
//
// Databases forget. MySQL rolls back one statement after a lock timeout and the
// whole transaction after a deadlock, SQLite after a full disk, and each then
// carries on as if nothing had happened; an error that the caller dropped on the
// way makes half a transaction durable. The guard sits below database/sql, where
// every statement passes whatever library wrote it, so *sql.DB and *sql.Tx stay
// what they are:
//
//	db := sql.OpenDB(sqlguard.Wrap(connector, sqlguard.PostgreSQL))
//
//	var txn sqlguard.Txn
//	tx, err := db.BeginTx(txn.Context(ctx), nil)
//
// From the first statement error on, tx runs no further statement and its COMMIT
// is refused and becomes a ROLLBACK. Only ROLLBACK TO a savepoint older than the
// error, accepted by the database, clears it. Transactions that carry no [Txn]
// pass through unchanged.
//
// # What it cannot see
//
//   - Errors that database/sql itself raises without asking the driver: a
//     statement whose context was already done, the scan of a column into a
//     variable of the wrong type, a badly named argument.
//   - Statements on the connection below the guard, reached with [Unwrap].
//     A COMMIT there is found out at our COMMIT ([ErrEnded]); a COMMIT followed by
//     a BEGIN (but on MySQL), and a COMMIT followed by our ROLLBACK on PostgreSQL,
//     are not.
//     On PostgreSQL a transaction that was opened there by hand before BeginTx
//     becomes part of the guarded one.
//   - MySQL: a COMMIT inside a stored procedure or inside dynamic SQL (EXECUTE) is not
//     refused. It is found out at our COMMIT or ROLLBACK ([ErrEnded]).
//   - Lexing follows the default settings: a PostgreSQL session with
//     standard_conforming_strings off, or a MySQL session with
//     NO_BACKSLASH_ESCAPES, can hide a COMMIT in a batch.
package sqlguard
