package sqlstore

// Config configures a [Store]. The zero value is ready to use.
type Config struct {
	// GroupCommit, on SQLite, lets operations that wait for the database file share one COMMIT, and so one
	// flush to the disk. The first operation begins immediately. The operations that arrive while the first
	// operation runs, or while a COMMIT is in flight, run after the first operation in the same transaction,
	// each under its own savepoint. No caller gets an answer before the COMMIT that covers the reads and
	// writes of its operation. A handler gets its *sql.Tx as usual. Whatever a handler does to its *sql.Tx,
	// the work of other operations is not rolled back.
	//
	// An operation with GroupCommit differs from an operation with a COMMIT of its own:
	//  - A handler may block other writers of the file for at most half of busy_timeout, so that the next
	//    operations can run. After half of busy_timeout the handler is rolled back, and the error is
	//    [store.KindBusy].
	//  - A handler may run again although it has not failed, for one of three reasons: (1) the handler has
	//    kept its group (the operations that share a COMMIT) waiting for 100 ms, and then runs again alone;
	//    (2) the COMMIT of its group has failed; (3) a statement of another handler has rolled back the whole
	//    group, as INSERT OR ROLLBACK and a full disk do. Each repeated run counts towards once.Config.Runs.
	//  - The end of a context ends statements that read, as usual, but no statement that writes.
	//    (Some drivers cannot interrupt a statement while the statement computes its next row.)
	//  - An operation waits for the COMMIT of its group, about 10 ms at most if the
	//    handlers are quick. The group locks the file until the COMMIT: other writers, such as other processes
	//    or your own transactions on the same *sql.DB, wait for the file as usual.
	//  - A group needs a second connection, with which waiting calls check whether their operation
	//    is done already. With SetMaxOpenConns(1) each group has one operation.
	//
	// The driver must be modernc.org/sqlite v1.53.0 or newer, or another driver whose connections have the same
	// method Status. The method Status reports that an operation violates a deferred foreign key; without
	// Status, the violation would be found only at the COMMIT of the whole group. busy_timeout must be at least
	// one second.
	//
	// Default: each operation has a COMMIT of its own.
	GroupCommit bool

	// NoOperations lets [New] open a database that does not have the store's table, for a service which keeps
	// receipts (package gateway/receipt) and no operations. Default: without the table, New returns
	// [store.ErrNotMigrated].
	NoOperations bool
}
