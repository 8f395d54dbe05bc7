package bugbank

// standbys are bugs of who asks a standby, and of transactions at SERIALIZABLE.
var standbys = []Mutant{
	{
		Name:  "a standby grants claims, on pgx",
		Edits: []Edit{{In: "pgxstore.(*Store).begin", Old: "case c.recovery && (rec.State != store.StateDone || opts.Durable):", New: "case false:"}},
		Tests: failover("TestAStandbyDoesNotSettle$/^pgxstore$/^do$"),
	},
	{
		Name:  "a standby grants claims, on database/sql",
		Edits: []Edit{{In: "sqlstore.claimPostgres", Old: "err = checkRecovery(recovery, c.row, opts)", New: ""}},
		Tests: failover("TestAStandbyDoesNotSettle$/^PostgreSQL,_sqlstore/^do$"),
	},
	{
		Name:  "what a standby does not have is absent, on pgx",
		Edits: []Edit{{In: "pgxstore.(*Store).look", Old: "if err == nil && recovery && r.live().State != store.StateDone {", New: "if false {"}},
		Tests: failover("TestAStandbyIsDown$/^pgxstore$/^default$"),
	},
	{
		Name:  "what a standby does not have is absent, on database/sql",
		Edits: []Edit{{In: "sqlstore.lookPostgres", Old: "err = checkRecovery(recovery, r, opts)", New: ""}},
		Tests: failover("TestAStandbyIsDown$/^PostgreSQL,_sqlstore/^default$"),
	},
	{
		Name:  "a connection to a standby stays in the pool, on pgx",
		Edits: []Edit{{In: "pgxstore.(*Store).begin", Old: "_ = conn.Conn().Close(ctx)", New: ""}},
		Tests: failover("TestAStandbyIsDown$/^pgxstore$/^default$"),
	},
	{
		Name:  "a connection to a standby stays in the pool, on database/sql",
		Edits: []Edit{{In: "sqlstore.(*Store).begin", Old: "sqlguard.Drop(t.conn)", New: ""}},
		Tests: failover("TestAStandbyIsDown$/^PostgreSQL,_sqlstore/^default$"),
	},
	{
		Name:  "a standby grants the claim of a first attempt",
		Edits: []Edit{{In: "LockOrFail", Old: " and not pg_is_in_recovery()", New: ""}},
		Tests: failover("TestAStandbyIsDown$/^pgxstore$/^default$"),
	},
	{
		Name:  "a batch that a standby refuses has failed for good",
		Edits: []Edit{{In: "pgxstore.(*batchTxn).Commit", Old: "if refusedByStandby(ctx, conn, err) {", New: "if false {"}},
		Tests: failover("TestAStandbyIsDown$/^pgxstore$/^default$"),
	},
	{
		Name: "the look-up is watched at SERIALIZABLE, on pgx",
		Edits: []Edit{
			{In: "pgxstore.(*Store).looksUpFirst", Old: "return looksUp(opts) &&", New: "return false &&"},
			{In: "pgxstore.(*Store).begin", Old: "case c.watched && !lookedUp && looksUp(opts):", New: "case false:"},
		},
		Tests: failover("TestUnrelatedKeysDoNotConflict$/^pgxstore$"),
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
		Name:  "the default level of the database is taken for READ COMMITTED, on pgx",
		Edits: []Edit{{In: "pgxstore.(*Store).begin", Old: "case c.watched && !lookedUp && looksUp(opts):", New: "case false:"}},
		Tests: failover("TestUnrelatedKeysDoNotConflict$/^pgxstore$"),
	},
	{
		Name:  "a join is watched at SERIALIZABLE, on pgx",
		Edits: []Edit{{In: "pgxstore.(*lookup).lookWatched", Old: "if c.granted {", New: "if false {"}},
		Tests: failover("TestUnrelatedKeysDoNotConflict$/^pgxstore$"),
	},
	{
		Name:  "a join is watched at SERIALIZABLE, on database/sql",
		Edits: []Edit{{In: "sqlstore.(*lookup).lookWatched", Old: "if c.granted {", New: "if false {"}},
		Tests: failover("TestUnrelatedKeysDoNotConflict$/^PostgreSQL,_sqlstore"),
	},
	{
		Name:  "a join at SERIALIZABLE takes any record for absent",
		Edits: []Edit{{In: "pgxstore.(*lookup).lookWatched", Old: "if err != nil || absent {", New: "if err != nil || true || absent {"}},
		Tests: failover("TestJoinAtSerializable$/^pgxstore$"),
	},
	{
		Name:  "a join at SERIALIZABLE waits for the holder of the claim",
		Edits: []Edit{{In: "pgxstore.(*lookup).lookWatched", Old: "if c.granted {", New: "if true {"}},
		Tests: failover("TestJoinAtSerializable$/^pgxstore$"),
	},
	{
		Name: "the look-up at SERIALIZABLE has no bounds, on pgx",
		Edits: []Edit{
			{In: "pgxstore.lookUp", Old: "queueBounds(&b, budget(ctx, opts.Timeouts.Statement), opts.Timeouts)", New: ""},
			{In: "pgxstore.awaitAnswer", Old: "limit > 0", New: "limit < 0"}, // which ends it later
		},
		Tests: failover("TestTheLookUpAtSerializableIsBounded$/^pgxstore$"),
	},
	{
		Name: "the look-up at SERIALIZABLE has no bounds, on database/sql",
		Edits: []Edit{
			{In: "sqlstore.(*txn).lookAhead", Old: "bound > 0 {", New: "bound < 0 {"},
			{In: "sqlstore.(*Store).Begin", Old: "opts.Timeouts.Acquire == 0 ||", New: "true ||"}, // which ends it later
		},
		Tests: failover("TestTheLookUpAtSerializableIsBounded$/^PostgreSQL,_sqlstore"),
	},
}
