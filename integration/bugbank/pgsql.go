package bugbank

// pgsqlMutants are bugs of package internal/sql/pgsql.
var pgsqlMutants = []Mutant{
	{
		Name:  "a batch does not see who holds the claim",
		Edits: []Edit{{In: "InsertClaim", Old: "`insert into once_operation (scope, key, claim, fingerprint, status, kind, head, body, expires_at, state)\n values ($1, $2, $3, $4, $5, $6, $7, $8, clock_timestamp() + $9 * interval '1 ms', 2 / pg_try_advisory_xact_lock($10)::int)`", New: "`insert into once_operation (scope, key, claim, fingerprint, status, kind, head, body, expires_at, state)\n values ($1, $2, $3, $4, $5, $6, $7, $8, clock_timestamp() + $9 * interval '1 ms', 2 / greatest(1, pg_try_advisory_xact_lock($10)::int))`"}},
		Tests: batchTest("TestBatchAtABusyKey"),
	},
	{
		Name:  "a wrong number of rows is committed",
		Edits: []Edit{{In: "Expecting", Old: `" then 1 else (count(*) || '" + affected + n + "')::int end from once_write"`, New: `" then 1 else length(count(*) || '" + affected + n + "') end from once_write"`}},
		Tests: batchTest("TestBatchRefusals"),
	},
	{
		Name:  "a Swap does not see who holds the claim",
		Edits: []Edit{{In: "SwapInsert", Old: "$4 / pg_try_advisory_xact_lock_shared($3)::int,", New: "$4 / greatest(1, pg_try_advisory_xact_lock_shared($3)::int),"}},
		Tests: []Killer{pgx},
	},
	{
		Name:  "nodes that start together migrate at the same time",
		Edits: []Edit{{In: "MigrationLock", Old: "`select pg_advisory_xact_lock(7881702260482471168)`", New: "`select 7881702260482471168`"}},
		Tests: []Killer{{Module: "store/pgxstore", Test: "TestMigrateTogether"}},
	},
	{
		Name:  "a key with a NUL says that the store is down",
		Edits: []Edit{{In: "Unwritable", Old: `sqlState == "22021"`, New: `sqlState == ""`}},
		Tests: []Killer{{Module: "store/pgxstore", Test: "TestConformanceOfEachMode$/^exec$/^ForeignText"}},
	},
	{
		Name:  "a first statement runs without the claim",
		Edits: []Edit{{In: "LockOrFail", Old: "select now(), 1 / (pg_try_advisory_xact_lock($1) and not pg_is_in_recovery())::int = 1", New: "select now(), pg_try_advisory_xact_lock($1) as granted"}},
		Tests: in("store/pgxstore", "TestAClaimThatWasPutOff"),
	},
	{
		Name:  "an optimistic first statement runs although the operation is done",
		Edits: []Edit{{In: "LockAbsentOrFail", Old: "not exists (select from once_operation where scope = $2 and key = $3)", New: "(not exists (select from once_operation where scope = $2 and key = $3) or true)"}},
		Tests: in("store/pgxstore", "TestAReplayThatWasNotForeseen"),
	},
	{
		Name:  "an optimistic first statement runs without the claim",
		Edits: []Edit{{In: "LockAbsentOrFail", Old: "(pg_try_advisory_xact_lock($1) and", New: "((pg_try_advisory_xact_lock($1) or true) and"}},
		Tests: in("store/pgxstore", "TestAClaimThatWasPutOff"),
	},
	{
		Name:  "a listing on PostgreSQL does not look at the state",
		Edits: []Edit{{In: "pgsql.unfinished", Old: "$6::smallint = 0 or", New: "$6::smallint >= 0 or"}},
		Tests: []Killer{{Module: "store/pgxstore", Test: "TestConformance$/^prepared$/^Lease$/^Unfinished$"}},
	},
	{
		Name:  "the name of a transaction outlives it",
		Edits: []Edit{{In: "pgsql.Name", Old: "$1, true)", New: "$1, false)"}},
		Tests: []Killer{{Module: "store/pgxstore", Package: "", Test: "TestEveryTransactionIsNamed"}},
	},
	{
		Name: "the lock of an operation has 32 bits",
		Edits: []Edit{{
			In:  "LockID",
			Old: "return int64(binary.BigEndian.Uint64(h[:8]))",
			New: "return int64(int32(binary.BigEndian.Uint64(h[:8])))",
		}},
		Tests: in("internal/sql/pgsql", "TestLockIDsAre64Bits"),
	},
	{
		Name: "a stale holder's fence is accepted",
		Edits: []Edit{{
			In:  "pgsql.SwapUpdate",
			Old: "fence = $19",
			New: "fence >= $18 * 0",
		}},
		Tests: []Killer{pgx},
	},
	{
		Name: "clearing the way for a new record deletes a living one",
		Edits: []Edit{{
			In:  "pgsql.Expired",
			Old: "`delete from once_operation where scope = $1 and key = $2 and state = 2 and expires_at <= now()`",
			New: "`delete from once_operation where scope = $1 and key = $2 and state = 2`",
		}},
		Tests: []Killer{{Module: "store/pgxstore", Test: "TestExpiredSparesTheLiving"}},
	},
	{
		Name: "the caller's time is the time of its connection's next user",
		Edits: []Edit{{
			In:  "tighten",
			Old: "`, true) end`",
			New: "`, false) end`",
		}},
		Tests: []Killer{{Module: "store/pgxstore", Test: "TestTimeBudgetBecomesAStatementTimeout"}},
	},
	{
		Name:  "the mark of a sweep stays where it was",
		Edits: []Edit{{In: "pgsql.Sweep", Old: "coalesce(max(expires_at), $2)", New: "$2::timestamptz"}},
		Tests: in("store/pgxstore", "TestSweepMark"),
	},
	{
		Name:  "a page of what is unfinished reads more than its limit on PostgreSQL",
		Edits: []Edit{{In: "pgsql.inOrder", Old: "order by scope, key limit $3) as page)", New: "order by scope, key limit $3 * 100) as page)"}},
		Tests: mariadbSQL("TestAPageReadsNoMore"),
	},
	{
		Name:  "a takeover passes a change that demands a hold",
		Edits: []Edit{{In: "pgsql.Held", Old: "for share of o", New: "for key share of o"}},
		Tests: in("store/pgxstore", "TestHeldIsLockedUntilTheCommit"),
	},
	{
		Name:  "an earlier incarnation's nonce is accepted",
		Edits: []Edit{{In: "pgsql.SwapUpdate", Old: "or claim = $21", New: "or claim <> $20"}},
		Tests: in("store/pgxstore", "TestConformance$/./^Swap"),
	},
	{
		Name:  "a change is written by the transaction after the handler's",
		Edits: []Edit{{In: "pgsql.SameTransaction", Old: "now() = $1", New: "now() >= $1"}},
		Tests: in("store/pgxstore", "TestAChangeInAnotherTransaction"),
	},
	{
		Name:  "the step of an operation is written by the transaction after the handler's",
		Edits: []Edit{{In: "pgsql.SwapKeepSame", Old: "when now() <> $18 then", New: "when now() < $18 then"}},
		Tests: in("store/pgxstore", "TestAChangeInAnotherTransaction"),
	},
	{
		Name:  "a step of an operation waits for locks without a bound",
		Edits: []Edit{{In: "pgsql.BoundsStart", Old: `concat(`, New: `coalesce(`}},
		Tests: in("store/pgxstore", "TestBoundsOfAStep"),
	},
	{
		Name:  "the first step of an operation is written by the transaction after the handler's",
		Edits: []Edit{{In: "pgsql.SwapInsertSame", Old: "when now() <> $20 then", New: "when now() < $20 then"}},
		Tests: in("store/pgxstore", "TestAChangeInAnotherTransaction"),
	},
	{
		Name:  "operations that do not wait are taken",
		Edits: []Edit{{In: "pgsql.Take", Old: "where o.state = 4 for update", New: "where o.state in (1, 4) for update"}},
		Tests: []Killer{{Module: "store/pgxstore", Test: "TestConformance$/^prepared$/^Lease$/^Take$"}},
	},
	{
		Name:  "a standby grants the claim of a first attempt",
		Edits: []Edit{{In: "LockOrFail", Old: " and not pg_is_in_recovery()", New: ""}},
		Tests: failover("TestAStandbyIsDown$/^pgxstore$/^default$"),
	},
	{
		Name:  "sqlstore: a server that keeps no claims is believed",
		Edits: []Edit{{In: "pgsql.ExcludesLock", Old: "granted && !second", New: "granted"}},
		Tests: []Killer{{Module: "integration", Package: "sqlstore", Test: "TestAServerWithoutLocks"}},
	},
}
