package bugbank

// databaseMutants are bugs of the stores on real databases, and of the guard.
var databaseMutants = []Mutant{
	{
		Name:  "an error of any write is taken for a collision of keys",
		Edits: []Edit{{In: "pgxstore.(*Store).failure", Old: "classify(err, b.at(failed))", New: "classify(err, statement{refusal: store.KindTaken})"}},
		Tests: []Killer{{Module: "store/pgxstore", Test: "TestAnAppendedWriteThatCollides"}},
	},
	{
		Name:  "a collision of keys is found at the statement after it",
		Edits: []Edit{{In: "results", Old: "failed--", New: ""}},
		Tests: []Killer{{Module: "store/pgxstore", Test: "TestACollisionIsAReplay"}},
	},
	{
		Name:  "a COMMIT that was not answered counts as not sent",
		Edits: []Edit{{In: "pgxstore.classify", Old: "kind := store.KindLost", New: "kind := store.KindUnavailable"}},
		Tests: []Killer{{Module: "store/pgxstore", Test: "TestOnlyTheServerSaysNo"}},
	},
	{
		Name:  "a Swap does not see who holds the claim",
		Edits: []Edit{{In: "SwapInsert", Old: "$4 / pg_try_advisory_xact_lock_shared($3)::int,", New: "$4 / greatest(1, pg_try_advisory_xact_lock_shared($3)::int),"}},
		Tests: []Killer{pgx},
	},
	{
		Name:  "savepoints of a handler share a name",
		Edits: []Edit{{In: "(*shared).name", Old: "strconv.Itoa(s.savepoints)", New: "strconv.Itoa(min(1, s.savepoints))"}},
		Tests: []Killer{{Module: "store/pgxstore", Test: "TestSavepointsNest"}},
	},
	{
		Name:  "nodes that start together migrate at the same time",
		Edits: []Edit{{In: "MigrationLock", Old: "`select pg_advisory_xact_lock(7881702260482471168)`", New: "`select 7881702260482471168`"}},
		Tests: []Killer{{Module: "store/pgxstore", Test: "TestMigrateTogether"}},
	},
	{
		Name:  "Timeouts.Idle is ignored",
		Edits: []Edit{{In: "queueBounds", Old: "pgsql.Bound(t.Idle)", New: "pgsql.Bound(0)"}},
		Tests: []Killer{{Module: "integration", Test: "TestTimeouts$/^pgxstore$/^idle"}},
	},
	{
		Name:  "Timeouts.Acquire is ignored",
		Edits: []Edit{{In: "pgxstore.(*Store).acquire", Old: "if patience > 0 {", New: "if patience < 0 {"}},
		Tests: []Killer{{Module: "integration", Test: "TestTimeouts$/^pgxstore$/^acquire"}},
	},
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
		Tests: in("internal/sql/sqlguard", "TestSavepoints"),
	},
	{
		Name:  "PostgreSQL is not told the isolation by database/sql",
		Edits: []Edit{{In: "(*Store).open", Old: "&sql.TxOptions{Isolation: levels[opts.Isolation]}", New: "&sql.TxOptions{}"}},
		Tests: isolation("$/^PostgreSQL,_sqlstore"),
	},
	{
		Name:  "SERIALIZABLE is REPEATABLE READ on MariaDB",
		Edits: []Edit{{In: "sqlguard.beginMySQL", Old: `strings.ToUpper(level.String())`, New: `"REPEATABLE READ"`}},
		Tests: isolation("InnoDB$/^MariaDB"),
	},
	{
		Name:  "the isolation of an operation is not told",
		Edits: []Edit{{In: "(*call).claim", Old: "Isolation: c.op.Isolation,", New: ""}},
		Tests: isolation("$/^PostgreSQL,_sqlstore"),
	},
}

func isolation(of string) []Killer {
	return []Killer{{Module: "integration", Test: "TestConformance" + of + "$/^Txn$/^Isolation"}}
}
