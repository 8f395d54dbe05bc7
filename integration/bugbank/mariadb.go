package bugbank

// mariadbMutants are bugs of what is MariaDB's own, and of what is too large for a database.
var mariadbMutants = []Mutant{
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
		Name:  "what could not be rolled back was not applied",
		Edits: []Edit{{In: "(*transaction).rollback", Old: `if incomplete || t.Incomplete() != nil {`, New: `if incomplete && t.Incomplete() != nil {`}},
		Tests: mariadbSQL("TestTablesThatAreNotTransactional"),
	},
	{
		Name:  "a deadlock has rolled back everything",
		Edits: []Edit{{In: "(*conn).noteRollback", Old: `if c.warned(ctx) &&`, New: `if !c.warned(ctx) &&`}},
		Tests: mariadbSQL("TestTablesThatAreNotTransactional"),
	},
	{
		Name:  "a join has rolled back everything",
		Edits: []Edit{{In: "sqlstore.(*joined).undo", Old: `if err := j.complete(ctx); err != nil {`, New: `if err := j.complete(ctx); err != nil && ctx == nil {`}},
		Tests: mariadbSQL("TestTablesThatAreNotTransactional"),
	},
	{
		Name:  "what MyISAM keeps is not recorded",
		Edits: []Edit{{In: "(*conn).record", Old: `range t.records()`, New: `range t.records()[:0]`}},
		Tests: mariadbSQL("TestTablesThatAreNotTransactional$/^MySQL$/^fails$"),
	},
	{
		Name:  "the claim is given up before the operation is recorded as unknown",
		Edits: []Edit{{In: "(*transaction).rollbackPacket", Old: `"@@warning_count = 0"`, New: `"1 = 1"`}, {In: "(*transaction).rollbackPacket", Old: `!warnings`, New: `(warnings || !warnings)`}},
		Tests: mariadbSQL("TestNothingRunsBeforeItIsUnknown"),
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
		Name:  "a temporary table makes an operation unknown",
		Edits: []Edit{{In: "(*conn).onlyTemporary", Old: `if !t.HasTemporary() ||`, New: `if t.HasTemporary() ||`}},
		Tests: mariadbSQL("TestTemporaryTables$/^MariaDB"),
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
		Name:  "a locked table says that PostgreSQL is down",
		Edits: []Edit{{In: "pgxstore.down", Old: `pgsql.Classify(pe.Code) == store.KindBusy:`, New: `pgsql.Classify(pe.Code) == store.KindBusy && err == nil:`}},
		Tests: []Killer{{Module: "store/pgxstore", Test: "TestALockedTableIsNoOutage"}},
	},
	{
		Name:  "a sweep fails because of a lock in an index",
		Edits: []Edit{{In: "(*Store).deleteUnlocked", Old: `if isLocked(err) {`, New: `if isLocked(err) && ctx == nil {`}},
		Tests: mariadbSQL("TestALockIsNoOutage$/^MariaDB$/^a_sweep,_its_index"),
	},
	{
		Name:  "once's own tables may be MyISAM's",
		Edits: []Edit{{In: "judgeEngines", Old: `bad = fail`, New: `bad = warn`}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestDoctorEngines"}},
	},
	{
		Name:  "what may have committed was not applied if no server can be asked",
		Edits: []Edit{{In: "(*call).runFailed", Old: `case !known && store.KindOf(r.undo) == store.KindLost:`, New: `case !known && store.KindOf(r.undo) == store.KindLost && txn.joined:`}},
		Tests: mariadbSQL("TestCommittedFromBelowAndLost"),
	},
	{
		Name:  "a procedure cannot have committed",
		Edits: []Edit{{In: "runsTexts", Old: `first.is("CALL") ||`, New: ``}},
		Tests: append(mariadbSQL("TestCommittedFromBelowAndLost"), in("internal/sql/sqlguard", "TestRunsTexts")...),
	},
	{
		Name:  "a replica that takes writes is fine",
		Edits: []Edit{{In: "judgeReadOnly", Old: `case following:`, New: `case following && session == "ON":`}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestDoctorReplicas"}},
	},
	{
		Name:  "a changed session goes back to the pool",
		Edits: []Edit{{In: "(*conn).noteSession", Old: `c.broken = true`, New: `c.broken = c.broken`}},
		Tests: mariadbSQL("TestASessionThatAHandlerHasChangedEnds"),
	},
	{
		Name:  "a variable of the user costs the connection",
		Edits: []Edit{{In: "(*parser).sets", Old: `t.text != "@" ||`, New: ``}, {In: "(*parser).sets", Old: `p.inside().text == "@"`, New: `p.inside().text != ""`}},
		Tests: in("internal/sql/sqlguard", "TestChangesSession"),
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
		Name:  "what the driver has not sent is in doubt",
		Edits: []Edit{{In: "PacketTooLarge", Old: `err != nil &&`, New: `err == nil &&`}},
		Tests: mariadbSQL("TestResultsTooLargeForInnoDB"),
	},
	{
		Name:  "SQLITE_TOOBIG passes",
		Edits: []Edit{{In: "sqlstore.tooLarge", Old: `code&0xff == codeTooBig`, New: `code&0xff == -1`}},
		Tests: mariadbSQL("TestResultsTooLargeForSQLite"),
	},
	{
		Name:  "a gigabyte is sent",
		Edits: []Edit{{In: "fits", Old: `n <= maxRecord`, New: `n >= 0`}},
		Tests: in("", "TestResultsThatNoDatabaseTakes"),
	},
	{
		Name:  "a client shall ask for what is too large again",
		Edits: []Edit{{In: "(*Exchange).Problem", Old: `errors.As(err, new(*toolarge.Error))`, New: `new(*toolarge.Error) == nil`}},
		Tests: in("oncehttp", "TestAnswerTooLargeForTheDatabase"),
	},
	{
		Name:  "a message that is too large is asked for again",
		Edits: []Edit{{In: "rpc.problemOf", Old: `p.Retryable, p.Handler, p.Message = false, false, tooLarge`, New: `p.Message = tooLarge`}},
		Tests: in("internal/rpc", "TestMessageTooLargeForTheDatabase"),
	},
}

func mariadbTorture(test string) []Killer { return []Killer{{Module: "integration", Test: test}} }

func mariadbSQL(test string) []Killer {
	return []Killer{{Module: "integration", Package: "sqlstore", Test: test}}
}
