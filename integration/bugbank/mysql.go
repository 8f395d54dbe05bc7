package bugbank

// mysqlMutants are bugs of what is MySQL's own: a claim is a lock of the session, timeouts have
// other names and types, and what ends a transaction underneath is found out by a statement.
var mysqlMutants = []Mutant{
	{
		Name:  "MySQL is not told the isolation",
		Edits: []Edit{{In: "(*txn).claimMySQL", Old: "&sql.TxOptions{Isolation: levels[opts.Isolation]}", New: "&sql.TxOptions{}"}},
		Tests: isolation("InnoDB$/^MySQL"),
	},
	{
		Name:  "who does not get MySQL's lock executes",
		Edits: []Edit{{In: "(*Store).locked", Old: `return found, got.Bool && found.live()`, New: `return found, found.live()`}},
		Tests: mariadbTorture("TestNoDeadlocks$/^MySQL$"),
	},
	{
		Name:  "Timeouts.Idle is ignored on MySQL",
		Edits: []Edit{{In: "(*Store).mysqlTimeouts", Old: `sessionTimeout{"wait_timeout", time.Second, t.Idle}`, New: `sessionTimeout{"wait_timeout", time.Second, 0}`}},
		Tests: mariadbTorture("TestTimeouts$/^MySQL$/^idle"),
	},
	{
		Name:  "work without a key has no Timeouts on MySQL and MariaDB",
		Edits: []Edit{{In: "sqlstore.(*Store).begin", Old: "err = t.setTimeouts(ctx, opts.Timeouts)", New: "err = ctx.Err()"}},
		Tests: mariadbSQL("TestTimeoutsWithoutKey"),
	},
	{
		Name:  "timeouts have a type that MySQL refuses",
		Edits: []Edit{{In: "(*txn).timeoutsMySQL", Old: `limit = "cast(" + limit + " as unsigned)"`, New: `limit += ""`}},
		Tests: mariadbTorture("TestTimeouts$/^MySQL$/^lock"),
	},
	{
		Name: "a lost answer to the check of MySQL's mark is a refusal", // also to ROLLBACK, which would ask again
		Edits: []Edit{
			{In: "(*txn).writeMySQL", Old: `case sqlguard.MySQL.Refused(err):`, New: `case err != nil:`},
			{In: "sqlstore.(*txn).Commit", Old: `!errors.Is(end, sql.ErrTxDone) && t.guard.Opaque()`, New: `!errors.Is(end, sql.ErrTxDone) && t == nil`},
		},
		Tests: mariadbTorture("TestEndedAndLost$/^MySQL"),
	},
	{
		Name:  "MySQL has md5",
		Edits: []Edit{{In: "migrationLockName", Old: `"concat('once migrate ', /*M! md5(database()) */ /*!80000 left(sha2(database(), 256), 32) */)"`, New: `"concat('once migrate ', md5(database()))"`}},
		Tests: mariadbTorture("TestUpgradeFromTheMiddle$/^MySQL"),
	},
	{
		Name:  "a join executes on a MySQL that is read_only",
		Edits: []Edit{{In: "(*Store).locked", Old: `case found.State == stateReplica:`, New: `case found.State == stateReplica && err != nil:`}},
		Tests: mariadbTorture("TestAReplicaExecutesNothing$/^MySQL"),
	},
	{
		Name:  "a claim is never let go",
		Edits: []Edit{{In: "(*transaction).doAfter", Old: `after == ""`, New: `after != ""`}},
		Tests: append(mariadbSQL("TestSessionsAreLeftAsTheyWere$/^MySQL"), in("internal/sql/sqlguard", "TestMarkIsSetWhenNeeded")...),
	},
	{
		Name:  "a replay keeps the lock",
		Edits: []Edit{{In: "(*Store).lockMySQL", Old: `fill(mysqlLock, replica, name, name,`, New: `fill(mysqlLock, replica, s.lockName(store.ID{}), name,`}},
		Tests: mariadbSQL("TestSessionsAreLeftAsTheyWere$/^MySQL"),
	},
	{
		Name:  "a procedure ends no transaction of MySQL",
		Edits: []Edit{{In: "(*conn).markBefore", Old: `|| isPlain(query)`, New: `|| true`}},
		Tests: append(mariadbSQL("TestCommittedFromBelow$/^MySQL"), in("internal/sql/sqlguard", "TestMarkIsSetWhenNeeded")...),
	},
	{
		Name:  "several statements are plain",
		Edits: []Edit{{In: "isPlain", Old: `text[i] == ';'`, New: `text[i] == 0`}},
		Tests: in("internal/sql/sqlguard", "TestIsPlain"),
	},
	{
		Name:  "what was written before the mark outlives a rollback to a savepoint",
		Edits: []Edit{{In: "(*Txn).settle", Old: `t.wroteBeforeMark && t.savepoints[i].born > t.beforeMarkAt`, New: `t.wroteBeforeMark`}},
		Tests: in("internal/sql/sqlguard", "TestMarkGoesWithOlderSavepoints"),
	},
	{
		Name:  "the driver's connection is handed out unmarked",
		Edits: []Edit{{In: "sqlguard.Unwrap", Old: `t != nil {`, New: `t != nil && t.fatal {`}},
		Tests: []Killer{{Module: "integration", Package: "sqlguard", Test: "TestEndedUnderneath"}},
	},
	{
		Name:  "the record is written by itself after a procedure has committed",
		Edits: []Edit{{In: "(*txn).writeMySQL", Old: `t.conn != nil && (t.guard.HasMark() ||`, New: `t.conn == nil && (t.guard.HasMark() ||`}},
		Tests: mariadbSQL("TestCommittedFromBelow$/^MySQL"),
	},
	{
		Name:  "a join of MySQL believes what its transaction sees",
		Edits: []Edit{{In: "(*joined).claimMySQL", Old: `mysqlRead+mysqlShare`, New: `mysqlRead`}},
		Tests: mariadbSQL("TestJoinAnOldTransaction"),
	},
	{
		Name:  "what a group refuses is not settled",
		Edits: []Edit{{In: "sqlguard.answered", Old: `slices.Contains(mysqlRefusals, code) ||`, New: `slices.Contains(mysqlRefusals, code) || code == 3100 || code == 3101 ||`}},
		Tests: mariadbSQL("TestAGroupRefusesACommit"),
	},
	{
		Name:  "the lock is the last gatekeeper on MySQL and MariaDB",
		Edits: []Edit{{In: "sqlstore.mysqlInsert", Old: `"insert into once_operation set`, New: `"replace into once_operation set`}},
		Tests: mariadbSQL("TestTheKeyDecidesWithoutLocks"),
	},
	{
		Name:  "several statements of the user travel in one packet",
		Edits: []Edit{{In: "(*conn).oneStatement", Old: `ctx.Value(ownTextKey{}) != nil`, New: `true`}},
		Tests: mariadbSQL("TestATextOfSeveralStatementsIsRefused"),
	},
	{
		Name:  "a lost packet with a claim proves that nothing was applied",
		Edits: []Edit{{In: "sqlstore.(*txn).ClaimsByCommit", Old: `|| t.batch`, New: ``}},
		Tests: mariadbTorture("TestConformanceInnoDB$/^MariaDB$/^Faults$/^Loop"),
	},
	{
		Name:  "a batch does not count the rows of its writes on MySQL and MariaDB",
		Edits: []Edit{{In: "(*txn).lastMySQL", Old: `if w.Rows != 0 {`, New: `if w.Rows < 0 {`}},
		Tests: mariadbTorture("TestConformanceInnoDB$/^MariaDB$/^Swap"),
	},
	{
		Name:  "what is done and kept for ever is read by each look at what is unfinished",
		Edits: []Edit{{In: "sqlstore.mysqlUnfinished", Old: `where state = ? and expires_at is null`, New: `where state + 0 = ? and expires_at is null`}},
		Tests: mariadbSQL("TestUnfinishedReadsNoTable"),
	},
	{
		Name:  "the driver puts arguments into texts in any charset",
		Edits: []Edit{{In: "(*conn).prepares", Old: `(c.unquotable || `, New: `(`}},
		Tests: mariadbSQL("TestArgumentsStayArguments"),
	},
	{
		Name:  "the driver puts arguments behind backslashes",
		Edits: []Edit{{In: "(*conn).prepares", Old: `strings.IndexByte(query, '\\') >= 0`, New: `false`}},
		Tests: mariadbSQL("TestArgumentsBehindBackslashes"),
	},
	{
		Name:  "a large statement travels with the beginning of its transaction",
		Edits: []Edit{{In: "(*conn).sendable", Old: `size(query, args) > maxOpening`, New: `size(query, args) < 0`}},
		Tests: mariadbSQL("TestResultsTooLargeForInnoDB"),
	},
	{
		Name:  "a batch does not count its record when it fills a packet",
		Edits: []Edit{{In: "(*txn).lastMySQL", Old: `size := sizeMySQL(c)`, New: `var size int64`}},
		Tests: mariadbSQL("TestResultsTooLargeForInnoDB"),
	},
	{
		Name:  "bounds that were never set are given back",
		Edits: []Edit{{In: "(*txn).restoreTimeouts", Old: `|| t.guard.Unopened()`, New: ``}},
		Tests: mariadbSQL("TestAFirstAttemptLeavesItsSession"),
	},
	{
		Name:  "a page of what is unfinished reads more than its limit on MariaDB",
		Edits: []Edit{{In: "sqlstore.mysqlUnfinished", Old: "order by scope, `key` limit ?)", New: "order by scope, `key` limit ?00)"}},
		Tests: mariadbSQL("TestAPageReadsNoMore"),
	},
	{
		Name:  "a page of what is unfinished reads more than its limit on PostgreSQL",
		Edits: []Edit{{In: "pgsql.inOrder", Old: "order by scope, key limit $3) as page)", New: "order by scope, key limit $3 * 100) as page)"}},
		Tests: mariadbSQL("TestAPageReadsNoMore"),
	},
	{
		Name:  "a page of what is unfinished ends with what it lists",
		Edits: []Edit{{In: "sqliteInOrder", Old: "where listed or n = ?3", New: "where listed"}},
		Tests: onSQLite("Lease$/^Unfinished"),
	},
	{
		Name:  "the doctor asks for no arguments in packets",
		Edits: []Edit{{In: "doctor.askPackets", Old: `"do 0; do ?"`, New: `"do ?"`}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestDoctorAccess"}},
	},
	{
		Name:  "a list of MariaDB and MySQL reads what is unfinished in any state",
		Edits: []Edit{{In: "operate.(*Keys).within", Old: `c.text = "expires_at is null and " + states[f.State]`, New: `c.text += ""`}},
		Tests: mariadbSQL("TestAPageReadsNoMore"),
	},
}
