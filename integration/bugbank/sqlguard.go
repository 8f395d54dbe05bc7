package bugbank

// sqlguardMutants are bugs of package internal/sql/sqlguard.
var sqlguardMutants = []Mutant{
	{
		Name:  "any savepoint heals any error, under database/sql",
		Edits: []Edit{{In: "(*Txn).admit", Old: "i >= 0 && t.savepoints[i].born <= f.since {", New: "i >= 0 {"}},
		Tests: in("internal/sql/sqlguard", "TestSavepointYoungerThanTheFailedStatement"),
	},
	{
		Name: "an error heals when any statement succeeds after it, under database/sql",
		Edits: []Edit{{In: "(*Txn).settle", Old: `case rollbackTo:
t.failure.Store(nil)`, New: `case releaseSavepoint, rollbackTo:
t.failure.Store(nil)`}, {In: "(*Txn).settle", Old: `case releaseSavepoint:
if i`, New: `case transactionControl:
if i`}},
		Tests: in("internal/sql/sqlguard", "TestSavepointsDecideTheCommit"),
	},
	{
		Name:  "SERIALIZABLE is REPEATABLE READ on MariaDB",
		Edits: []Edit{{In: "sqlguard.beginMySQL", Old: `strings.ToUpper(level.String())`, New: `"REPEATABLE READ"`}},
		Tests: isolation("InnoDB$/^MariaDB"),
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
		Name:  "a temporary table makes an operation unknown",
		Edits: []Edit{{In: "(*conn).onlyTemporary", Old: `if !t.HasTemporary() ||`, New: `if t.HasTemporary() ||`}},
		Tests: mariadbSQL("TestTemporaryTables$/^MariaDB"),
	},
	{
		Name:  "a procedure cannot have committed",
		Edits: []Edit{{In: "runsTexts", Old: `first.is("CALL") ||`, New: ``}},
		Tests: append(mariadbSQL("TestCommittedFromBelowAndLost"), in("internal/sql/sqlguard", "TestRunsTexts")...),
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
		Name:  "what the driver has not sent is in doubt",
		Edits: []Edit{{In: "PacketTooLarge", Old: `err != nil &&`, New: `err == nil &&`}},
		Tests: mariadbSQL("TestResultsTooLargeForInnoDB"),
	},
	{
		Name: "a swallowed statement error is committed, under database/sql",
		Edits: []Edit{{
			In:  "(*Txn).fail",
			Old: "t.failure.Store(f)",
			New: "_ = f",
		}},
		Tests: in("internal/sql/sqlguard", "TestEveryErrorPoisons"),
	},
	{
		Name: "an error of a statement is forgotten, and the transaction commits",
		Edits: []Edit{{
			In: "(*Txn).settle",
			Old: `t.fail(since, query, err)
return`,
			New: "return",
		}},
		Tests: []Killer{{Module: "integration", Test: "TestNthStatementFails$/^SQLite"}},
	},
	{
		Name:  "a claim is never let go",
		Edits: []Edit{{In: "(*transaction).doAfter", Old: `after == ""`, New: `after != ""`}},
		Tests: append(mariadbSQL("TestSessionsAreLeftAsTheyWere$/^MySQL"), in("internal/sql/sqlguard", "TestMarkIsSetWhenNeeded")...),
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
		Name:  "what a group refuses is not settled",
		Edits: []Edit{{In: "sqlguard.answered", Old: `slices.Contains(mysqlRefusals, code) ||`, New: `slices.Contains(mysqlRefusals, code) || code == 3100 || code == 3101 ||`}},
		Tests: mariadbSQL("TestAGroupRefusesACommit"),
	},
	{
		Name:  "several statements of the user travel in one packet",
		Edits: []Edit{{In: "(*conn).oneStatement", Old: `ctx.Value(ownTextKey{}) != nil`, New: `true`}},
		Tests: mariadbSQL("TestATextOfSeveralStatementsIsRefused"),
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
		Name:  "a statement that is refused only has an error",
		Edits: []Edit{{In: "sqlguard.(*conn).refused", Old: "return c.run(ctx, failing[c.dialect])", New: "return nil"}},
		Tests: onStrangers("TestAStatementIsRefused$/^SQLite$"),
	},
	{
		Name:  "a statement of the store is refused",
		Edits: []Edit{{In: "sqlguard.(*conn).refused", Old: "cmd.verb != ordinary, owns(ctx), !t.commitForbidden.Load()", New: "cmd.verb != ordinary"}},
		Tests: onStrangers("TestAStatementIsRefused$/^SQLite$"),
	},
	{
		Name:  "a hook that refuses nothing has a round trip",
		Edits: []Edit{{In: "sqlguard.(*conn).refused", Old: "case !t.refusal():\nreturn nil", New: "case !t.refusal():\nreturn c.run(ctx, \"select 1\")"}},
		Tests: onStrangers("TestAHookThatRefusesNothingIsFree$/^SQLite$"),
	},
	{
		Name:  "a transaction of an unguarded database is taken for a guarded one",
		Edits: []Edit{{In: "sqlguard.(*Txn).JoinTx", Old: "!guarded && !errors.Is(err, sql.ErrTxDone)", New: "!guarded && errors.Is(err, sql.ErrNoRows)"}},
		Tests: planeTest("TestPlaneRefusesUnguarded"),
	},
	{
		Name:  "a transaction that cannot be joined is left to its caller",
		Edits: []Edit{{In: "sqlguard.(*Txn).JoinTx", Old: "c.tx.txn, t.isolation = t, c.tx.isolation", New: ""}},
		Tests: []Killer{{Module: ".", Package: "internal/sql/sqlguard", Test: "TestJoinTxFails"}},
	},
	{
		Name:  "a guarded transaction is asked whether it is open, before every statement of a capability",
		Edits: []Edit{{In: "sqlguard.(*conn).ExecContext", Old: "if query == visitText {", New: "if query == visitText && c.tx == nil {"}},
		Tests: planeTest("TestPlaneRoundTrips"),
	},
}
