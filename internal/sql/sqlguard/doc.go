// Package sqlguard allows the commit of a transaction of database/sql only if every statement of the transaction has succeeded.
//
// Databases can lose a part of a transaction. MySQL rolls back one statement after a lock timeout, and the whole transaction
// after a deadlock. SQLite rolls back after a full disk. Then both accept further statements as if nothing had happened. If
// a handler ignores such an error, a COMMIT makes half of the transaction durable. The guard works below database/sql,
// where every statement passes, whatever library has written it. So *sql.DB and *sql.Tx stay as they are:
//
//	db := sql.OpenDB(sqlguard.Wrap(connector, sqlguard.PostgreSQL))
//
//	var txn sqlguard.Txn
//	tx, err := db.BeginTx(txn.Context(ctx), nil)
//
// After the first statement error, tx runs no further statement. Its COMMIT is refused and becomes a ROLLBACK. Only a ROLLBACK TO
// a savepoint that is older than the error clears the error, if the database accepts it. Transactions without a [Txn] are
// not changed.
//
// # Limits of the guard
//
//   - It does not see errors that database/sql itself raises without asking the driver: a statement whose context has ended,
//     the scan of a column into a variable of the wrong type, a wrong name of an argument.
//   - It does not see statements on the connection below the guard, which [Unwrap] returns. A COMMIT there is detected at our
//     COMMIT ([ErrEnded]). A COMMIT that is followed by a BEGIN is detected only on MySQL. On PostgreSQL, a COMMIT that is
//     followed by our ROLLBACK is not detected, and a transaction that was opened by hand before BeginTx becomes a part of
//     the guarded one.
//   - MySQL: a COMMIT inside a stored procedure or dynamic SQL (EXECUTE) is not refused. It is detected at our COMMIT or
//     ROLLBACK ([ErrEnded]).
//   - The lexer assumes the default settings. A PostgreSQL session with standard_conforming_strings off, or a MySQL session
//     with NO_BACKSLASH_ESCAPES, can hide a COMMIT in a batch.
package sqlguard
