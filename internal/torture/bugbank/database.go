package bugbank

// databaseMutants are bugs of the stores on real databases, and of the guard.
var databaseMutants = []Mutant{
	{
		Name:  "an error of any write is taken for a collision of keys",
		Edits: []Edit{{File: "pgxstore/txn.go", Old: "	return classify(err, failed == record)\n", New: "	return classify(err, record >= 0)\n"}},
		Tests: []Killer{{Module: "pgxstore", Test: "TestAnAppendedWriteThatCollides"}},
	},
	{
		Name:  "a collision of keys is found at the statement after it",
		Edits: []Edit{{File: "pgxstore/txn.go", Old: "	failed--\n", New: ""}},
		Tests: []Killer{{Module: "pgxstore", Test: "TestACollisionIsAReplay"}},
	},
	{
		Name:  "a COMMIT that was not answered counts as not sent",
		Edits: []Edit{{File: "pgxstore/classify.go", Old: "kind := store.Lost", New: "kind := store.Down"}},
		Tests: []Killer{{Module: "pgxstore", Test: "TestOnlyTheServerSaysNo"}},
	},
	{
		Name:  "a Swap does not see who holds the claim",
		Edits: []Edit{{File: "internal/pgsql/pgsql.go", Old: "$4 / pg_try_advisory_xact_lock_shared($3)::int,", New: "$4 / greatest(1, pg_try_advisory_xact_lock_shared($3)::int),"}},
		Tests: []Killer{pgx},
	},
	{
		Name:  "savepoints of a handler share a name",
		Edits: []Edit{{File: "pgxstore/tx.go", Old: "strconv.Itoa(s.savepoints)", New: "strconv.Itoa(min(1, s.savepoints))"}},
		Tests: []Killer{{Module: "pgxstore", Test: "TestSavepointsNest"}},
	},
	{
		Name:  "nodes that start together migrate at the same time",
		Edits: []Edit{{File: "internal/pgsql/pgsql.go", Old: "`select pg_advisory_xact_lock(7881702260482471168)`", New: "`select 7881702260482471168`"}},
		Tests: []Killer{{Module: "pgxstore", Test: "TestMigrateTogether"}},
	},
	{
		Name:  "Timeouts.Idle is ignored",
		Edits: []Edit{{File: "pgxstore/begin.go", Old: "if t.Idle > 0 {", New: "if t.Idle < 0 {"}},
		Tests: []Killer{{Module: "internal/torture", Test: "TestTimeouts$/^pgxstore$/^idle"}},
	},
	{
		Name:  "Timeouts.Acquire is ignored",
		Edits: []Edit{{File: "pgxstore/begin.go", Old: "if patience > 0 {", New: "if patience < 0 {"}},
		Tests: []Killer{{Module: "internal/torture", Test: "TestTimeouts$/^pgxstore$/^acquire"}},
	},
	{
		Name:  "any savepoint heals any error, under database/sql",
		Edits: []Edit{{File: "internal/sqlguard/txn.go", Old: "i >= 0 && t.savepoints[i].born <= f.since {", New: "i >= 0 {"}},
		Tests: in("internal/sqlguard", "TestSavepointYoungerThanTheFailedStatement"),
	},
	{
		Name:  "an error heals when any statement succeeds after it, under database/sql",
		Edits: []Edit{{File: "internal/sqlguard/txn.go", Old: "	case rollbackTo:\n		t.failure.Store(nil)\n", New: "	case releaseSavepoint, rollbackTo:\n		t.failure.Store(nil)\n"}, {File: "internal/sqlguard/txn.go", Old: "	case releaseSavepoint:\n		if i", New: "	case transactionControl:\n		if i"}},
		Tests: in("internal/sqlguard", "TestSavepoints"),
	},
	{
		Name:  "MariaDB is not told the isolation",
		Edits: []Edit{{File: "store/sqlstore/mysql_claim.go", Old: "mysqlLevels[ask.Isolation] + ", New: ""}},
		Tests: isolation("MariaDB$/^sqlstore-mariadb"),
	},
	{
		Name:  "MySQL is not told the isolation",
		Edits: []Edit{{File: "store/sqlstore/mysql_claim.go", Old: "&sql.TxOptions{Isolation: levels[ask.Isolation]}", New: "&sql.TxOptions{}"}},
		Tests: isolation("MariaDB$/^as_MySQL"),
	},
	{
		Name:  "PostgreSQL is not told the isolation by database/sql",
		Edits: []Edit{{File: "store/sqlstore/begin.go", Old: "&sql.TxOptions{Isolation: levels[ask.Isolation]}", New: "&sql.TxOptions{}"}},
		Tests: isolation("$/^sqlstore-postgres"),
	},
	{
		Name:  "SERIALIZABLE is REPEATABLE READ on MariaDB",
		Edits: []Edit{{File: "store/sqlstore/mysql_claim.go", Old: "isolation level serializable; ", New: "isolation level repeatable read; "}},
		Tests: isolation("MariaDB$/^sqlstore-mariadb"),
	},
	{
		Name:  "nobody is told the isolation of an operation",
		Edits: []Edit{{File: "batch.go", Old: "Isolation: c.op.Isolation, ", New: ""}},
		Tests: isolation("$/^sqlstore-postgres"),
	},
}

func isolation(of string) []Killer {
	return []Killer{{Module: "internal/torture", Test: "TestConformance" + of + "$/^Txn$/^Isolation"}}
}
