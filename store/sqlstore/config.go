package sqlstore

// Config of a [Store]. The zero value is ready to use.
type Config struct {
	// GroupCommit, on SQLite, lets operations that wait for the file share one COMMIT,
	// and so one flush to the disk. The first one begins at once. The operations that arrive
	// while it runs, or while a COMMIT is on its way, follow it in the same transaction,
	// each in a savepoint of its own, and no operation is answered before the COMMIT
	// that covers its reads and writes. A handler gets its *sql.Tx as ever, and nothing that
	// it does to it undoes the work of other operations.
	//
	// The differences:
	//   - A handler may hold the file for half of busy_timeout and no longer, so that the next
	//     ones get their turn; then it is rolled back, and the error is [store.KindBusy].
	//   - A handler may run again although it has not failed: alone, after it has
	//     kept its group waiting for 100 ms, or because the COMMIT of its group has failed
	//     or a statement of another handler has rolled back the whole group, as INSERT OR ROLLBACK
	//     and a full disk do. That counts as one of once.Config.Runs.
	//   - The end of a context ends statements that read, as ever, but no statement that writes.
	//     (A driver may be unable to interrupt the work between two rows at all.)
	//   - An operation waits for the COMMIT of its group, some 10 ms at most with quick
	//     handlers. The file is held as long: other writers, such as other processes or
	//     transactions of yours on the same *sql.DB, wait for it as ever.
	//   - A group needs a second connection, by which waiting calls look whether their operation
	//     is done already. With SetMaxOpenConns(1) each group has one member.
	//
	// The driver must be modernc.org/sqlite v1.53.0 or newer, or another one whose connections
	// have its method Status, which reports that an operation violates a deferred foreign key: that
	// would otherwise be found at the COMMIT for all. busy_timeout must be a second at least.
	//
	// Default: each operation has a COMMIT of its own.
	GroupCommit bool

	// NoOperations lets [New] open a database without the store's table, for a service which keeps receipts
	// (package gateway/receipt) and no operations. Default: [store.ErrNotMigrated].
	NoOperations bool
}
