package bugbank

// sqlChangeMutants are bugs of how sqlstore writes a change, and of how it renews and lists.
var sqlChangeMutants = []Mutant{
	{
		Name:  "sqlstore commits done whatever it is asked",
		Edits: []Edit{{In: "isAtomic", Old: `n.State == store.StateDone && `, New: ``}},
		Tests: mariadbSQL("TestOwnClaim$/^SQLite"),
	},
	{
		Name:  "sqlstore commits although a hold is lost",
		Edits: []Edit{{In: "sqlstore.(*txn).checkHeld", Old: `n != len(holds)`, New: `n > len(holds)`}},
		Tests: mariadbSQL("TestCommitRunningInAGroup"),
	},
	{
		Name:  "MariaDB does not lock what is held",
		Edits: []Edit{{In: "(*txn).countHeldMySQL", Old: `heldMySQL(holds)+" lock in share mode"`, New: `heldMySQL(holds)`}},
		Tests: mariadbSQL("TestHeldStaysHeld$/^MariaDB"),
	},
	{
		Name:  "MariaDB matches the claim of its own transaction",
		Edits: []Edit{{In: "sqlstore.(*txn).write", Old: `case !t.id.IsZero() && c.Expect.Fence != 0:`, New: `case !t.id.IsZero() && c.Expect.Fence < 0:`}},
		Tests: mariadbSQL("TestOwnClaim$/^MariaDB"),
	},
	{
		Name:  "an update of MariaDB that changes nothing has renewed nothing",
		Edits: []Edit{{In: "(*txn).renewMySQL", Old: `return collectHolds(ctx, t.tx, heldMySQL(held))`, New: `return collectHolds(ctx, t.tx, heldMySQL(held[:len(held)-1]))`}},
		Tests: mariadbSQL("TestRenewManyLeases$/^MariaDB"),
	},
	{
		Name:  "SQLite renews what has another nonce",
		Edits: []Edit{{In: "sqliteIsHeld", Old: `and claim = ?4`, New: `and ?4 = ?4`}},
		Tests: mariadbSQL("TestRenewManyLeases$/^SQLite"),
	},
	{
		Name:  "SQLite walks over all that is done",
		Edits: []Edit{{In: "sqliteUnfinished", Old: `indexed by once_operation_unfinished where state`, New: `where +state`}},
		Tests: mariadbSQL("TestUnfinishedReadsNoTable$/^the_plan_of_SQLite$"),
	},
	{
		Name:  "a declined join meets the expired record that it has deleted",
		Edits: []Edit{{In: "sqlstore.(*joined).Commit", Old: `t.seen.row.expired = true`, New: `t.seen.row.expired = false`}},
		Tests: mariadbSQL("TestJoinReplacesAnExpiredFailure$/^SQLite"),
	},
	{
		Name:  "the wait for the turn to write is not reported",
		Edits: []Edit{{In: "(*Store).openSQLite", Old: `addLockWait(opts.Waits, waiting)`, New: `addLockWait(nil, waiting)`}},
		Tests: mariadbSQL("TestWaits$/^line"),
	},
}
