package bugbank

// sqlstoreMutants are bugs of package store/sqlstore.
var sqlstoreMutants = []Mutant{
	{
		Name:  "database/sql waits without end for a statement of a handler",
		Edits: []Edit{{In: "sqlstore.(*Store).Begin", Old: "open && opts.Timeouts.Statement > 0", New: "open && opts.Timeouts.Statement < 0"}},
		Tests: []Killer{{Module: "integration", Package: "sqlstore", Test: "TestAServerThatFallsSilent"}},
	},
	{
		Name:  "database/sql waits without end for a server that is silent",
		Edits: []Edit{{In: "sqlstore.(*Store).Begin", Old: "limit := 2*opts.Timeouts.Acquire + opts.Timeouts.Lock", New: "limit := time.Hour"}},
		Tests: []Killer{{Module: "integration", Package: "sqlstore", Test: "TestASilentServer"}},
	},
	{
		Name:  "PostgreSQL is not told the isolation by database/sql",
		Edits: []Edit{{In: "(*Store).open", Old: "&sql.TxOptions{Isolation: levels[opts.Isolation]}", New: "&sql.TxOptions{}"}},
		Tests: isolation("$/^PostgreSQL,_sqlstore"),
	},
	{
		Name:  "a store is opened without its tables",
		Edits: []Edit{{In: "sqlstore.New", Old: "err := s.Check(ctx); errors.Is(err, store.ErrNotMigrated)", New: "err := s.Check(ctx); d.name == \"\""}},
		Tests: group("TestMissingTables"),
	},
	{
		Name:  "an upgrade that was killed after it has dropped an index fails",
		Edits: []Edit{{In: "sqlstore.(migrating).execMySQL", Old: "case 1050, 1060, 1061, 1091:", New: "case 1050, 1060, 1061:"}},
		Tests: []Killer{{Module: "integration", Test: "TestLettersUpgradeKilled$/^MariaDB$"}},
	},
	{
		Name:  "a joined handler may commit its caller's transaction",
		Edits: []Edit{{In: "sqlstore.(*joined).began", Old: "j.inHandler = j.guard.ForbidCommit()", New: "j.inHandler = true"}},
		Tests: []Killer{{Module: "integration", Test: "TestConformance$/^SQLite$/^Join$/^HandlerEnds"}},
	},
	{
		Name:  "a join gives away what an outer handler has been lent",
		Edits: []Edit{{In: "(*joined).takeBack", Old: "if !j.inHandler {", New: "{"}},
		Tests: []Killer{{Module: "integration", Test: "TestConformance$/^SQLite$/^Join$/^HandlerEnds"}},
	},
	{
		Name:  "what an owner holds is listed as due",
		Edits: []Edit{{In: "sqlstore.sqliteUnfinished", Old: "(not ?4 or state in (3, 4)", New: "(not ?4 or state = 1"}},
		Tests: onSQLite("Lease$/^Unfinished$"),
	},
	{
		Name:  "what waits is not listed as due on SQLite",
		Edits: []Edit{{In: "sqliteUnfinished", Old: "or state in (3, 4)", New: "or state = 3"}},
		Tests: onSQLite("Lease$/^Unfinished$"),
	},
	{
		Name:  "a listing on SQLite does not look at the state",
		Edits: []Edit{{In: "sqliteUnfinished", Old: "?6 = 0 or state = ?6", New: "?6 = ?6 or state = ?6"}},
		Tests: onSQLite("Lease$/^Unfinished$"),
	},
	{
		Name:  "a renewal whose process is stopped keeps what it has locked",
		Edits: []Edit{{In: "(*txn).boundRenewal", Old: "return t.s.dialect.timeouts(ctx, t.tx, idle)", New: "return nil"}},
		Tests: hangsOnLeases("TestStoppedInARenewal$/^PostgreSQL,_sqlstore"),
	},
	{
		Name:  "a procedure commits, and its process can tell nothing any more",
		Edits: []Edit{{In: "sqlstore.(*Store).begin", Old: "t.writeIfEnded(opts.IfEnded)", New: ""}},
		Tests: onLeases("TestKilledBehindAProcedure$/^MariaDB"),
	},
	{
		Name:  "a procedure runs although its owner has lost the operation",
		Edits: []Edit{{In: "(*Store).swapInSession", Old: "case rows != 1:", New: "case rows > 1:"}},
		Tests: onLeases("TestProcedureOfALateOwner$/^MySQL"),
	},
	{
		Name:  "a phase that leaves a savepoint after a procedure fails",
		Edits: []Edit{{In: "(*txn).writeMySQL", Old: "t.guard.HasMark()", New: "(t.guard.HasMark() || t.ifEnded != nil)"}},
		Tests: onLeases("TestPhaseThatLeavesASavepoint$/^MariaDB"),
	},
	{
		Name:  "a takeover waits for a transaction of the owner",
		Edits: []Edit{{In: "(*txn).replaceMySQL", Old: "if c.Expect.LeaseExpired {", New: "if c.Expect.LeaseExpired && c.KeepRequest == (c.ID.Key == \"\") {"}},
		Tests: onLeases("TestLongProcedure$/^MySQL"),
	},
	{
		Name:  "who cannot begin keeps the turn",
		Edits: []Edit{{In: "(*Store).openSQLite", Old: "s.file.Next()\nif code", New: "if code"}},
		Tests: group("TestSQLiteLineGoesOn"),
	},
	{
		Name:  "an operation on SQLite that need not wait looks up twice",
		Edits: []Edit{{In: "(*Store).openSQLite", Old: "if !s.file.Take() {", New: "if true {"}},
		Tests: group("TestSQLiteLooksUpOnce"),
	},
	{
		Name:  "SQLite parses the store's own statements each time",
		Edits: []Edit{{In: "(*Store).ownContext", Old: "return sqlguard.Own(ctx)", New: "return ctx"}},
		Tests: group("TestSQLiteLooksUpOnce"),
	},
	{
		Name:  "a replay on SQLite waits for other writers",
		Edits: []Edit{{In: "sqlstore.lookBeforeWait", Old: "rec.State == store.StateDone", New: "rec.State == store.StateUnknown"}},
		Tests: group("TestSQLiteReplayWaitsForNobody"),
	},
	{
		Name: "who hangs in a transaction keeps the line",
		Edits: []Edit{{In: "(*txn).limit", Old: `_ = t.tx.Rollback()
t.free()`, New: "_ = t.tx.Rollback()"}},
		Tests: group("TestIdleHandlerBlocksNoOther$/^it_returns$"),
	},
	{
		Name:  "a sweeper keeps the file while a request waits for it",
		Edits: []Edit{{In: "(*Store).sweepPart", Old: "done.tried >= sqliteLeast && s.file.Waiting()", New: "done.tried >= sqliteMost && s.file.Waiting()"}},
		Tests: group("TestSweepStandsInLine"),
	},
	{
		Name:  "a server that is read_only executes what it can",
		Edits: []Edit{{In: "(*Store).locked", Old: `case found.State == stateReplica:`, New: `case found.State == stateReplica && err != nil:`}},
		Tests: mariadbTorture("TestAReplicaExecutesNothing$/^MariaDB"),
	},
	{
		Name:  "a join executes on a server that is read_only",
		Edits: []Edit{{In: "(*Store).lockMySQL", Old: `replica = "(" + replica + ") and not (" + mysqlLive + ")"`, New: `replica = "0 and not (" + mysqlLive + ")"`}},
		Tests: mariadbTorture("TestAReplicaExecutesNothing$/^MariaDB"),
	},
	{
		Name:  "a join replays durably on a server that is read_only",
		Edits: []Edit{{In: "(*Store).lockMySQL", Old: `if !opts.Durable {`, New: `if !opts.Durable || look {`}},
		Tests: mariadbTorture("TestAReplicaExecutesNothing$/^MariaDB"),
	},
	{
		Name:  "a replica that is writable settles",
		Edits: []Edit{{In: "(*Store).replica", Old: `opts.Durable && s.compound`, New: `opts.Durable && !s.compound`}, {In: "(*Store).readOnlyWord", Old: `case opts.Durable:`, New: `case opts.Durable && !s.compound:`}},
		Tests: mariadbTorture("TestAReplicaSettlesNothing$/^MariaDB_writable"),
	},
	{
		Name: "a reader of Aurora settles",
		Edits: []Edit{
			{In: "mysqlReplica", Old: `"(concat(@@read_only) not in ('OFF', '0') or @@innodb_read_only)"`, New: `"(concat(@@read_only) not in ('OFF', '0'))"`},
			{In: "(*Store).readOnlyWord", Old: `"@@read_only or @@innodb_read_only or @@transaction_read_only"`, New: `"@@read_only or @@transaction_read_only"`},
		},
		Tests: mariadbTorture("TestAReaderOfAuroraSettlesNothing"),
	},
	{
		Name:  "a SERIALIZABLE join locks the place of what it looks for",
		Edits: []Edit{{In: "(*joined).claimMySQL", Old: `!j.serializable()`, New: `true`}},
		Tests: mariadbSQL("TestSerializableJoinsLockNoPlace"),
	},
	{
		Name:  "the level of the session does not count",
		Edits: []Edit{{In: "(*joined).serializable", Old: `level == sql.LevelDefault && j.s.serializable`, New: `level == sql.LevelDefault && false`}},
		Tests: mariadbSQL("TestSerializableJoinsLockNoPlace"),
	},
	{
		Name:  "a locked gap is an operation in flight",
		Edits: []Edit{{In: "(*joined).claimMySQL", Old: "if isLocked(err) {\n return err", New: "if isLocked(err) {\n return nil"}},
		Tests: mariadbSQL("TestJoinBesideALockedGap"),
	},
	{
		Name:  "a join has rolled back everything",
		Edits: []Edit{{In: "sqlstore.(*joined).undo", Old: `if err := j.complete(ctx); err != nil {`, New: `if err := j.complete(ctx); err != nil && ctx == nil {`}},
		Tests: mariadbSQL("TestTablesThatAreNotTransactional"),
	},
	{
		Name:  "the caller's commit of a failed join leaves no record",
		Edits: []Edit{{In: "(*joined).leaveUnknown", Old: `|| !j.begun {`, New: `|| j.begun {`}},
		Tests: mariadbSQL("TestTablesThatAreNotTransactional$/^MariaDB$/^fails,_its_caller_commits"),
	},
	{
		Name:  "a deadlock in a join has rolled back everything",
		Edits: []Edit{{In: "(*joined).stands", Old: `errors.Join(undo, j.guard.Incomplete())`, New: `undo`}},
		Tests: mariadbSQL("TestTablesThatAreNotTransactional$/^MariaDB$/^deadlocks_in_a_join"),
	},
	{
		Name:  "a temporary table puts a join in doubt",
		Edits: []Edit{{In: "sqlstore.(*joined).complete", Old: `if incomplete && j.guard.HasTemporary() {`, New: `if !incomplete && j.guard.HasTemporary() {`}},
		Tests: mariadbSQL("TestTemporaryTables$/^MariaDB"),
	},
	{
		Name:  "a handler of MySQL runs again for each wait for a lock",
		Edits: []Edit{{In: "classifyMySQL", Old: `kind = store.KindBusy`, New: `kind, taken = store.KindBusy, code == mysqlLockWait`}},
		Tests: mariadbSQL("TestALockIsNoOutage$/^MySQL$/^a_claim,_its_gap"),
	},
	{
		Name:  "a lock that was waited for says that the store is down",
		Edits: []Edit{{In: "sqlstore.(*Store).down", Old: `case k == store.KindBusy,`, New: `case k == store.KindBusy && s == nil,`}},
		Tests: mariadbSQL("TestABusyDatabaseIsNotDown$/^PostgreSQL,_sqlstore"),
	},
	{
		Name:  "a sweep fails because of a lock in an index",
		Edits: []Edit{{In: "(*Store).deleteUnlocked", Old: `if isLocked(err) {`, New: `if isLocked(err) && ctx == nil {`}},
		Tests: mariadbSQL("TestALockIsNoOutage$/^MariaDB$/^a_sweep,_its_index"),
	},
	{
		Name:  "a record larger than max_allowed_packet is sent",
		Edits: []Edit{{In: "(*Store).checkSize", Old: `size <= packet`, New: `size > 0`}},
		Tests: mariadbSQL("TestResultsTooLargeForInnoDB"),
	},
	{
		Name:  "max_allowed_packet is asked for once",
		Edits: []Edit{{In: "(*Store).forgetPacket", Old: `s.packet.Store(0)`, New: ``}},
		Tests: mariadbSQL("TestResultsTooLargeForInnoDB"),
	},
	{
		Name:  "SQLITE_TOOBIG passes",
		Edits: []Edit{{In: "sqlstore.tooLarge", Old: `code&0xff == codeTooBig`, New: `code&0xff == -1`}},
		Tests: mariadbSQL("TestResultsTooLargeForSQLite"),
	},
	{
		Name:  "a deadlock of MariaDB is not known as one",
		Edits: []Edit{{In: "sqlstore.(*Store).IsDeadlock", Old: "is(err, mysqlDeadlock)", New: "is(err, mysqlChanged)"}},
		Tests: []Killer{{Module: "integration", Package: "telemetry", Test: "TestDeadlocksAreCounted$/^MariaDB$"}},
	},
	{
		Name:  "a killed upgrade of MariaDB does not get over a column that is there",
		Edits: []Edit{{In: "(migrating).execMySQL", Old: "case 1050, 1060, 1061, 1091:", New: "case 1050, 1061:"}},
		Tests: []Killer{{Module: "integration", Test: "TestUpgradeKilled"}},
	},
	{
		Name:  "a node that has waited for the lock migrates with an old snapshot, under database/sql",
		Edits: []Edit{{In: "sqlstore.MigrateOnly", Old: "opts.Isolation = store.ReadCommitted", New: "opts.Isolation = store.DefaultIsolation"}},
		Tests: []Killer{{Module: "integration", Package: "sqlstore", Test: "TestMigrationSeesTheWorkOfThoseBeforeIt$/^database_sql"}},
	},
	{
		Name:  "a process that was killed while it made the tables of webhooks leaves tables that no upgrade gets over",
		Edits: []Edit{{In: "(migrating).execMySQL", Old: "case 1050, 1060, 1061, 1091:", New: "case 1060, 1061, 1091:"}},
		Tests: []Killer{{Module: "integration", Test: "TestWebhookUpgradeKilled$/^MariaDB$"}},
	},
	{
		Name: "Timeouts.Lock is for rows only",
		Edits: []Edit{{
			In:  "(*Store).mysqlTimeouts",
			Old: `, {"lock_wait_timeout", time.Second, t.Lock}}`,
			New: "}",
		}},
		Tests: []Killer{{Module: "integration", Test: "TestTimeoutsBoundAStuckCall$/^MariaDB$/^table", Hangs: true}},
	},
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
		Tests: mariadbTorture("TestTimeoutsBoundAStuckCall$/^MySQL$/^idle"),
	},
	{
		Name:  "work without a key has no Timeouts on MySQL and MariaDB",
		Edits: []Edit{{In: "sqlstore.(*Store).begin", Old: "err = t.setTimeouts(ctx, opts.Timeouts)", New: "err = ctx.Err()"}},
		Tests: mariadbSQL("TestTimeoutsWithoutKey"),
	},
	{
		Name:  "timeouts have a type that MySQL refuses",
		Edits: []Edit{{In: "(*txn).timeoutsMySQL", Old: `limit = "cast(" + limit + " as unsigned)"`, New: `limit += ""`}},
		Tests: mariadbTorture("TestTimeoutsBoundAStuckCall$/^MySQL$/^lock"),
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
		Name:  "a replay keeps the lock",
		Edits: []Edit{{In: "(*Store).lockMySQL", Old: `fill(mysqlLock, replica, name, name,`, New: `fill(mysqlLock, replica, s.lockName(store.ID{}), name,`}},
		Tests: mariadbSQL("TestSessionsAreLeftAsTheyWere$/^MySQL"),
	},
	{
		Name:  "the record is written by itself after a procedure has committed",
		Edits: []Edit{{In: "(*txn).writeMySQL", Old: `t.conn != nil && t.guard.HasMark()`, New: `t.conn == nil && t.guard.HasMark()`}},
		Tests: mariadbSQL("TestCommittedFromBelow$/^MySQL"),
	},
	{
		Name:  "a join of MySQL believes what its transaction sees",
		Edits: []Edit{{In: "(*joined).claimMySQL", Old: `mysqlRead+mysqlShare`, New: `mysqlRead`}},
		Tests: mariadbSQL("TestJoinAnOldTransaction"),
	},
	{
		Name:  "the lock is the last gatekeeper on MySQL and MariaDB",
		Edits: []Edit{{In: "sqlstore.mysqlInsert", Old: `"insert into once_operation set`, New: `"replace into once_operation set`}},
		Tests: mariadbSQL("TestTheKeyDecidesWithoutLocks"),
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
		Name:  "a page of what is unfinished ends with what it lists",
		Edits: []Edit{{In: "sqliteInOrder", Old: "where listed or n = ?3", New: "where listed"}},
		Tests: onSQLite("Lease$/^Unfinished"),
	},
	{
		Name:  "an error that the driver was not asked about is unknown to the guard",
		Edits: []Edit{{In: "sqlstore.(*txRunner).guarded", Old: "sqlguard.FailTx(ctx, r.tx, st.SQL, err)", New: ""}},
		Tests: append(planeSuite("SQLite", "Cancelled"), planeSuite("PostgreSQL,_sqlstore", "Handler")...),
	},
	{
		Name:  "a statement whose answer is lost counts as one that was not applied",
		Edits: []Edit{{In: "sqlstore.(poolRunner).run", Old: "store.KindLost", New: "store.KindUnavailable"}},
		Tests: planeTest("TestPlaneLostAnswers"),
	},
	{
		Name:  "a statement that could not be read counts as applied",
		Edits: []Edit{{In: "sqlstore.(poolRunner).run", Old: "unsent, reads(st),", New: "unsent,"}},
		Tests: planeTest("TestPlaneLostAnswers"),
	},
	{
		Name:  "a statement that only reads waits for the writers of SQLite",
		Edits: []Edit{{In: "(poolRunner).needsTx", Old: "&& !reads(st)", New: ""}},
		Tests: planeTest("TestPlaneOnSQLite"),
	},
	{
		Name:  "a statement with too few rows is refused when it has been applied",
		Edits: []Edit{{In: "(poolRunner).needsTx", Old: "st.Rows > 0 ||", New: ""}},
		Tests: planeSuite("PostgreSQL,_sqlstore", "Errors"),
	},
	{
		Name:  "what travels with a change is sent as it comes",
		Edits: []Edit{{In: "sqlstore.(*Store).writes", Old: "sqlplane.InLockOrder(writes)", New: "writes"}},
		Tests: planeSuite("SQLite", "Append"),
	},
	{
		Name:  "a transaction of a capability commits what its function has refused",
		Edits: []Edit{{In: "sqlstore.(*Store).Within", Old: "if err == nil {\n\t\treturn t.Commit", New: "if true {\n\t\treturn t.Commit"}},
		Tests: planeSuite("SQLite", "Within"),
	},
	{
		Name:  "sqlstore does not tell the wait of a look-up apart",
		Edits: []Edit{{In: "sqlstore.(*Store).Read", Old: "w != nil", New: "w != nil && false"}},
		Tests: mariadbSQL("TestAcquireIsToldApart"),
	},
	{
		Name:  "Warm does not see that a sql.DB closes what it has opened",
		Edits: []Edit{{In: "sqlstore.(*Store).Warm", Old: "closed > 0", New: "closed > 1000"}},
		Tests: mariadbSQL("TestWarmOpensConnectionsAhead"),
	},
	{
		Name:  "operations that do not wait are taken on MySQL",
		Edits: []Edit{{In: "sqlstore.(*txn).takeMySQL", Old: " where o.state = 4 for update", New: " where o.state in (1, 4) for update"}},
		Tests: []Killer{{Module: "integration", Test: "TestConformanceInnoDB$/^MySQL$/^Lease$/^Take$"}},
	},
	{
		Name:  "a node that takes what is due waits for what another one has locked",
		Edits: []Edit{{In: "sqlstore.(*txn).takeMySQL", Old: "for update skip locked", New: "for update"}},
		Tests: []Killer{{Module: "integration", Package: "sqlstore", Test: "TestTakeIsOneTransaction$/^MySQL$"}},
	},
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
		Tests: mariadbSQL("TestBeginTellsWhatItWaitedFor$/^line"),
	},
	{
		Name:  "a standby grants claims, on database/sql",
		Edits: []Edit{{In: "sqlstore.claimPostgres", Old: "err = checkRecovery(recovery, c.row, opts)", New: ""}},
		Tests: failover("TestAStandbyDoesNotSettle$/^PostgreSQL,_sqlstore/^do$"),
	},
	{
		Name:  "what a standby does not have is absent, on database/sql",
		Edits: []Edit{{In: "sqlstore.lookPostgres", Old: "err = checkRecovery(recovery, r, opts)", New: ""}},
		Tests: failover("TestAStandbyIsDown$/^PostgreSQL,_sqlstore/^default$"),
	},
	{
		Name:  "a connection to a standby stays in the pool, on database/sql",
		Edits: []Edit{{In: "sqlstore.(*Store).begin", Old: "sqlguard.Drop(t.conn)", New: ""}},
		Tests: failover("TestAStandbyIsDown$/^PostgreSQL,_sqlstore/^default$"),
	},
	{
		Name: "the look-up is watched at SERIALIZABLE, on database/sql",
		Edits: []Edit{
			{In: "sqlstore.(*Store).looksAhead", Old: "return s.dialect.name == sqlplane.PostgreSQL &&", New: "return false &&"},
			{In: "sqlstore.(*Store).begin", Old: "case t.seen.watched && !s.looksAhead(opts):", New: "case false:"},
			{In: "pgsql.Claim", Old: " and key = $2 and not (", New: " and key = $2 or false and ("},
		},
		Tests: failover("TestUnrelatedKeysDoNotConflict$/^PostgreSQL,_sqlstore"),
	},
	{
		Name:  "a join is watched at SERIALIZABLE, on database/sql",
		Edits: []Edit{{In: "sqlstore.(*lookup).lookWatched", Old: "if c.granted {", New: "if false {"}},
		Tests: failover("TestUnrelatedKeysDoNotConflict$/^PostgreSQL,_sqlstore"),
	},
	{
		Name: "the look-up at SERIALIZABLE has no bounds, on database/sql",
		Edits: []Edit{
			{In: "sqlstore.(*txn).lookAhead", Old: "bound > 0 {", New: "bound < 0 {"},
			{In: "sqlstore.(*Store).Begin", Old: "opts.Timeouts.Acquire == 0 ||", New: "true ||"}, // which ends it later
		},
		Tests: failover("TestTheLookUpAtSerializableIsBounded$/^PostgreSQL,_sqlstore"),
	},
	{
		Name:  "sqlstore: one more join than a thousand",
		Edits: []Edit{{In: "sqlstore.(*joined).countClaim", Old: "j.guard.Claims(+1) > pgsql.MaxJoins", New: "j.guard.Claims(+1) > pgsql.MaxJoins+1"}},
		Tests: []Killer{{Module: "integration", Package: "sqlstore", Test: "TestManyJoins"}},
	},
	{
		Name: "sqlstore: a join that replays keeps its claim",
		Edits: []Edit{{In: "sqlstore.(*Store).Join", Old: `if s.dialect.name == sqlplane.PostgreSQL {
	err = j.rollback(ctx)
}`, New: ""}},
		Tests: []Killer{{Module: "integration", Package: "sqlstore", Test: "TestManyJoins"}},
	},
	{
		Name:  "nodes that migrate together without locks fail",
		Edits: []Edit{{In: "sqlstore.MigrateOnly", Old: "!pgsql.Overtaken(sqlguard.SQLState(err))", New: "err != nil"}},
		Tests: []Killer{{Module: "integration", Package: "sqlstore", Test: "TestMigrationsTogetherWithoutLocks"}},
	},
}
