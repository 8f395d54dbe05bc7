package bugbank

// pgxstoreMutants are bugs of package store/pgxstore.
var pgxstoreMutants = []Mutant{
	{
		Name:  "a batch that was lost counts as not sent",
		Edits: []Edit{{In: "pgxstore.(*Store).failure", Old: "failed == 0 && ctx.Err() == nil && !conn.IsClosed():", New: "failed == 0 && ctx.Err() == nil:"}},
		Tests: batchTest("TestBatchIsCut"),
	},
	{
		Name: "a batch whose wait was cancelled counts as committed",
		Edits: []Edit{{In: "(*batchTxn).Commit", Old: `if err == nil {
failed, err = len(b), ctx.Err()`, New: `if err == nil && failed < 0 {
failed, err = len(b), ctx.Err()`}},
		Tests: batchTest("TestBatchThatWasCancelledIsAsked"),
	},
	{
		Name:  "a business collision in a batch is taken for a duplicate",
		Edits: []Edit{{In: "pgxstore.queueWrites", Old: "appended: len(tail) > 0", New: "appended: len(tail) > 0, refusal: store.KindTaken"}},
		Tests: batchTest("TestBatchRefusals"),
	},
	{
		Name:  "a procedure may commit half a batch",
		Edits: []Edit{{In: "checkBatchWrites", Old: `case "insert",`, New: `case "call", "insert",`}},
		Tests: batchTest("TestBatchRefusals"),
	},
	{
		Name:  "a batch that is too old executes",
		Edits: []Edit{{In: "(*batchTxn).Commit", Old: "if !t.opts.StaleAfter.IsZero() {", New: "if t.opts.StaleAfter.IsZero() && c.ID.IsZero() {"}},
		Tests: batchTest("TestBatchStale"),
	},
	{
		Name:  "statements of batches are never dropped",
		Edits: []Edit{{In: "(*preparedCache).makeRoom", Old: "if oldest.used == p.trips {", New: "if oldest.used <= p.trips {"}},
		Tests: batchTest("TestHotStatementsStayPrepared"),
	},
	{
		Name:  "what a batch has prepared before a migration stays",
		Edits: []Edit{{In: "pgxstore.(*Store).failure", Old: "misfit(pe) {", New: "false {"}},
		Tests: in("store/pgxstore", "TestABatchAfterAMigration"),
	},
	{
		Name:  "the answer of a silent server is waited for without end",
		Edits: []Edit{{In: "awaitAnswer", Old: "if limit > 0 {", New: "if limit > time.Hour {"}},
		Tests: in("store/pgxstore", "TestASilentServerIsNamed"),
	},
	{
		Name:  "a server that is silent to the first question of a store is not named",
		Edits: []Edit{{In: "pgxstore.(*Store).acquire", Old: "case own.Err() != nil && ctx.Err() == nil:", New: "case false:"}},
		Tests: in("store/pgxstore", "TestASilentServerIsNamed"),
	},
	{
		Name:  "a replay that must be durable waits for its server without end",
		Edits: []Edit{{In: "pgxstore.(*txn).synced", Old: "awaitAnswer(t.conn.Conn(), limit)", New: "awaitAnswer(t.conn.Conn(), 0*limit)"}},
		Tests: in("store/pgxstore", "TestASilentServerIsNamed"),
	},
	{
		Name:  "the first statement of a first attempt is waited for without end",
		Edits: []Edit{{In: "(*firstAttempt).answerTime", Old: "return limit + f.opts.Timeouts.Statement", New: "return 0"}},
		Tests: in("store/pgxstore", "TestASilentServer"),
	},
	{
		Name:  "a statement of a handler is waited for without end",
		Edits: []Edit{{In: "(*session).awaitAnswer", Old: "if s.over {", New: "if s != nil {"}},
		Tests: in("store/pgxstore", "TestAStatementOfASilentServer"),
	},
	{
		Name:  "a first statement that takes long is taken for a silent server",
		Edits: []Edit{{In: "(*firstAttempt).answerTime", Old: "return 0", New: "return limit"}},
		Tests: in("store/pgxstore", "TestALongFirstStatement"),
	},
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
		Name:  "savepoints of a handler share a name",
		Edits: []Edit{{In: "(*shared).name", Old: "strconv.Itoa(s.savepoints)", New: "strconv.Itoa(min(1, s.savepoints))"}},
		Tests: []Killer{{Module: "store/pgxstore", Test: "TestSavepointsNest"}},
	},
	{
		Name:  "Timeouts.Idle is ignored",
		Edits: []Edit{{In: "queueBounds", Old: "pgsql.Bound(t.Idle)", New: "pgsql.Bound(0)"}},
		Tests: []Killer{{Module: "integration", Test: "TestTimeoutsBoundAStuckCall$/^pgxstore$/^idle"}},
	},
	{
		Name:  "Timeouts.Acquire is ignored",
		Edits: []Edit{{In: "pgxstore.(*Store).acquire", Old: "if patience > 0 {", New: "if patience < 0 {"}},
		Tests: []Killer{{Module: "integration", Test: "TestTimeoutsBoundAStuckCall$/^pgxstore$/^acquire"}},
	},
	{
		Name:  "a first attempt does not say that tables are missing",
		Edits: []Edit{{In: "pgxstore.ownTable", Old: "(known || strings.Contains(pe.Message, `\"once_`))", New: "known && false"}},
		Tests: []Killer{{Module: "store/pgxstore", Test: "TestMissingTables"}},
	},
	{
		Name: "a handler's own deadline is the store's",
		Edits: []Edit{{In: "(*session).refuse", Old: `default:
			kind = store.KindOther`, New: `default:
			kind = store.KindBusy`}},
		Tests: []Killer{{Module: "store/pgxstore", Test: "TestOwnDeadline"}},
	},
	{
		Name:  "an optimistic operation that is claimed is not told to be in flight",
		Edits: []Edit{{In: "(*firstAttempt).exchange", Old: `if f.opts.Optimistic != nil {`, New: `if false {`}},
		Tests: in("store/pgxstore", "TestOptimisticTellsWhenItIsClaimed"),
	},
	{
		Name: "a handler that hides why its first statement failed is believed",
		Edits: []Edit{{In: "pgxstore.(*txn).Rollback", Old: `t.abandon(ctx)
return t.raw.refused`, New: `t.abandon(ctx)
return nil`}},
		Tests: in("store/pgxstore", "TestAClaimThatWasPutOff"),
	},
	{
		Name: "a handler without a statement commits what it has not claimed",
		Edits: []Edit{{In: "pgxstore.(*txn).Commit", Old: `_, err := t.raw.open(ctx, statement{})
if err == nil {`, New: `var err error
if t.raw.first == nil {`}},
		Tests: in("store/pgxstore", "TestAClaimThatWasPutOff"),
	},
	{
		Name:  "what is sent on the connection runs before BEGIN",
		Edits: []Edit{{In: "(*session).Conn", Old: "_, _ = s.open(ctx, statement{})", New: "_ = ctx"}},
		Tests: in("store/pgxstore", "TestAFirstAttemptOpensWithItsFirstStatement"),
	},
	{
		Name: "rows of an earlier handler end those of the next one",
		Edits: []Edit{
			{In: "(*firstRows).Close", Old: `if r.closed {
	return
}`, New: ""},
			{In: "(*gatedRows).Close", Old: "if r.closed || r.gate.enter() != nil {", New: "if false {"},
		},
		Tests: []Killer{{Module: "store/pgxstore", Test: "TestRowsOfAnEarlierHandler", Hangs: true}},
	},
	{
		Name: "a first attempt on a broken connection fails",
		Edits: []Edit{{In: "(*session).refuse", Old: `case ctx.Err() == nil:
kind = store.KindRetry`, New: `case ctx.Err() == nil:
kind = store.KindBusy`}},
		Tests: in("store/pgxstore", "TestAFirstAttemptOnABrokenConnection"),
	},
	{
		Name:  "a statement runs while the transaction is opened, or after a panic",
		Edits: []Edit{{In: "(*session).open", Old: "s.first, s.refused = nil, errNotOpen", New: "s.first, s.refused = nil, nil"}},
		Tests: in("store/pgxstore", "TestNothingRunsBeforeTheTransactionIsOpen"),
	},
	{
		Name: "a transaction that could not be opened leaves its connection open",
		Edits: []Edit{{In: "(*session).refuse", Old: `if s.conn.PgConn().TxStatus() == 'I' {
	_ = s.conn.Close(ctx)
}`, New: ""}},
		Tests: in("store/pgxstore", "TestNothingRunsWithoutATransaction"),
	},
	{
		Name: "a first statement that its migration has outdated fails",
		Edits: []Edit{{In: "(*session).failed", Old: `s.refuse(ctx, err)
	return s.refused
case misfit`, New: `return err
case misfit`}},
		Tests: in("store/pgxstore", "TestAFirstStatementAfterAMigration"),
	},
	{
		Name:  "a first statement is prepared without bounds",
		Edits: []Edit{{In: "(*firstAttempt).prepare", Old: "p.known[sql] != nil ||", New: "p.known[sql] != nil || true ||"}},
		Tests: in("store/pgxstore", "TestAFirstStatementIsBounded"),
	},
	{
		Name:  "a tracer switches first attempts off",
		Edits: []Edit{{In: "pgxstore.mayPrepare", Old: "return cfg.DefaultQueryExecMode", New: "return cfg.Tracer == nil && cfg.DefaultQueryExecMode"}},
		Tests: in("store/pgxstore", "TestAFirstAttemptOpensWithItsFirstStatement$/^traced,_first_attempt"),
	},
	{
		Name:  "a tracer is not told the end of a first statement",
		Edits: []Edit{{In: "pgxstore.(*session).Exec", Old: "sent.trace.end(tag, err)", New: ""}},
		Tests: in("store/pgxstore", "TestATracerSeesTheFirstStatement"),
	},
	{
		Name:  "a tracer is not told the end of first rows",
		Edits: []Edit{{In: "(*firstRows).Close", Old: "r.sent.trace.end(r.CommandTag(), r.Err())", New: ""}},
		Tests: in("store/pgxstore", "TestATracerSeesTheFirstStatement"),
	},
	{
		Name:  "a tracer is not told the end of a statement that was skipped",
		Edits: []Edit{{In: "pgxstore.(*session).traceRefused", Old: "sent.trace.end(pgconn.CommandTag{}, err)", New: ""}},
		Tests: in("store/pgxstore", "TestATracerSeesWhatAFirstAttemptFinds"),
	},
	{
		Name:  "a tracer has statements that the handler has dropped taken for prepared",
		Edits: []Edit{{In: "(*preparedCache).forgetOwn", Old: "clear(p.own)", New: "_ = p"}},
		Tests: in("store/pgxstore", "TestATracerSeesEachPrepareOnce"),
	},
	{
		Name: "a join whose transaction is gone counts as undone, on pgx",
		Edits: []Edit{
			{In: "pgxstore.(*joined).undo", Old: "if over(err) {", New: "if false {"},
			{In: "pgxstore.(*joined).send", Old: "case over(err):", New: "case false:"},
		},
		Tests: []Killer{{Module: "store/pgxstore", Test: "TestConformance$/./^Join$/^HandlerEnds"}},
	},
	{
		Name:  "a first attempt has no name in the log of the server",
		Edits: []Edit{{In: "pgxstore.(*firstAttempt).unbounded", Old: "f.s.queueName(&b, f.opts.ID)", New: ""}},
		Tests: []Killer{{Module: "store/pgxstore", Package: "", Test: "TestEveryTransactionIsNamed"}},
	},
	{
		Name:  "a locked table says that PostgreSQL is down",
		Edits: []Edit{{In: "pgxstore.down", Old: `pgsql.Classify(pe.Code) == store.KindBusy:`, New: `pgsql.Classify(pe.Code) == store.KindBusy && err == nil:`}},
		Tests: []Killer{{Module: "store/pgxstore", Test: "TestALockedTableIsNoOutage"}},
	},
	{
		Name:  "a node that has waited for the lock migrates with an old snapshot",
		Edits: []Edit{{In: "pgxstore.Migrate", Old: "pgx.TxOptions{IsoLevel: pgx.ReadCommitted}", New: "pgx.TxOptions{}"}},
		Tests: []Killer{{Module: "integration", Package: "sqlstore", Test: "TestMigrationSeesTheWorkOfThoseBeforeIt$/^pgxstore"}},
	},
	{
		Name: "the key is committed before the effect",
		Edits: []Edit{{
			In: "pgxstore.(*txn).Commit",
			Old: `queueChange(&b, c, &t.seen)
queueWrites(&b, t.user.tail, c.Writes)`,
			New: "if !c.ID.IsZero() {\n\tearly, n := new(pgx.Batch), c.Next\n\tearly.Queue(`insert into once_operation (scope, key, claim, status, kind, body) values ($1, $2, $3, $4, $5, $6)`, c.ID.Scope, c.ID.Key, n.Nonce, n.Result.Status, n.Result.Kind, n.Result.Body)\n\tother, err := pgx.ConnectConfig(ctx, t.conn.Conn().Config())\n\tif err != nil {\n\t\treturn err\n\t}\n\tif err := other.SendBatch(ctx, early).Close(); err != nil {\n\t\treturn err\n\t}\n\t_ = other.Close(ctx)\n}\nqueueWrites(&b, t.user.tail, c.Writes)",
		}},
		Tests: []Killer{misbehave},
	},
	{
		Name: "the effect is committed before the key",
		Edits: []Edit{{
			In: "pgxstore.(*txn).Commit",
			Old: `queueChange(&b, c, &t.seen)
queueWrites(&b, t.user.tail, c.Writes)
b.queue(commit)`,
			New: "queueWrites(&b, t.user.tail, c.Writes)\nb.queue(commit)\nb.queue(`begin`)\nqueueChange(&b, c, &t.seen)\nb.queue(commit)",
		}, {
			In:  "InsertDone",
			Old: "`insert into once_operation (scope, key, claim, fingerprint, status, kind, head, body, expires_at, state)\n values ($1, $2, $3, $4, $5, $6, $7, $8, clock_timestamp() + $9 * interval '1 ms', 2 / (now() = $10)::int)`",
			New: "`insert into once_operation (scope, key, claim, fingerprint, status, kind, head, body, expires_at, state)\n values ($1, $2, $3, $4, $5, $6, $7, $8, clock_timestamp() + $9 * interval '1 ms', 2 + 0 * coalesce(extract(epoch from $10::timestamptz)::int, 0))`",
		}},
		Tests: []Killer{pgx},
	},
	{
		Name: "an error that only the client has seen is committed over",
		Edits: []Edit{{
			In:  "(*tx).note",
			Old: "t.err = err",
			New: "_ = err",
		}},
		Tests: []Killer{misbehave},
	},
	{
		Name: "a handler's own COMMIT goes unnoticed",
		Edits: []Edit{{
			In: "unfit",
			Old: `case pc.TxStatus() == 'I':
kind, err = store.KindEnded, errEnded`,
			New: "",
		}, {
			In:  "InsertDone",
			Old: "`insert into once_operation (scope, key, claim, fingerprint, status, kind, head, body, expires_at, state)\n values ($1, $2, $3, $4, $5, $6, $7, $8, clock_timestamp() + $9 * interval '1 ms', 2 / (now() = $10)::int)`",
			New: "`insert into once_operation (scope, key, claim, fingerprint, status, kind, head, body, expires_at, state)\n values ($1, $2, $3, $4, $5, $6, $7, $8, clock_timestamp() + $9 * interval '1 ms', 2 + 0 * coalesce(extract(epoch from $10::timestamptz)::int, 0))`",
		}},
		Tests: []Killer{misbehave},
	},
	{
		Name: "an expired operation is replayed",
		Edits: []Edit{{
			In:  "pgxstore.(row).live",
			Old: "case r.expired:",
			New: "case false:",
		}},
		Tests: []Killer{pgx},
	},
	{
		Name: "a batch that was never sent is committed over",
		Edits: []Edit{{
			In:  "(notedBatch).note",
			Old: "return b.t.note(err)",
			New: "",
		}},
		Tests: []Killer{misbehave},
	},
	{
		Name: "a join undoes to the savepoint of a join inside of it",
		Edits: []Edit{{
			In:  "undo",
			Old: "rollback to savepoint once_join; release savepoint once_join",
			New: "rollback to savepoint once_join",
		}},
		Tests: []Killer{pgx},
	},
	{
		Name: "a wait for the standby that was cancelled counts as its answer",
		Edits: []Edit{{
			In:  "results",
			Old: "if err == nil && ctx.Err() != nil {",
			New: "if false {",
		}},
		Tests: failover("TestACancelledWaitIsNotSuccess$/^pgxstore"),
	},
	{
		Name: "what ends the transaction is sent, and found out afterwards, on pgx",
		Edits: []Edit{{
			In:  "(*tx).admit",
			Old: "if sqlguard.PostgreSQL.Ends(sql) {",
			New: "if false && sqlguard.PostgreSQL.Ends(sql) {",
		}},
		Tests: []Killer{{Module: "integration", Test: "TestEndedAndLost$/^pgxstore"}},
	},
	{
		Name:  "a savepoint outlives the one that it was set in",
		Edits: []Edit{{In: "(*tx).Rollback", Old: "if t.ended() {", New: "if t.over.Load() {"}},
		Tests: batchTest("TestSavepointOfOneThatHasEnded"),
	},
	{
		Name:  "savepoints have the same names in every transaction",
		Edits: []Edit{{In: "(*shared).name", Old: "prefixes.Add(1)%64", New: "prefixes.Load()"}},
		Tests: batchTest("TestSavepointNamesDiffer"),
	},
	{
		Name: "a join goes back to a savepoint that was not set",
		Edits: []Edit{{In: "pgxstore.(*Store).Join", Old: `if set { // to go back to what was not set would fail the caller's transaction
_`, New: `if set || len(b) > 0 { // to go back to what was not set would fail the caller's transaction
_`}},
		Tests: batchTest("TestJoinThatIsNotSent"),
	},
	{
		Name: "a sweep whose COMMIT was refused has swept",
		Edits: []Edit{{In: "readSwept", Old: `if e := br.Close(); err == nil { // of COMMIT
	err = e
}`, New: "_ = br.Close()"}},
		Tests: in("store/pgxstore", "TestSweepRefusedCommit"),
	},
	{
		Name:  "pgx sends a statement that is refused",
		Edits: []Edit{{In: "pgxstore.(*tx).Exec", Old: "if t.root.refuses() {", New: "if t.root.refuses() && sql == \"\" {"}},
		Tests: onStrangers("TestAStatementIsRefused$/^pgxstore$"),
	},
	{
		Name:  "a hook of pgx that refuses nothing allocates",
		Edits: []Edit{{In: "pgxstore.(*shared).refuses", Old: "return s.refusal != nil && s.refusal()", New: "if s.refusal != nil {\ns.prefix = s.prefix[:0] + strconv.Itoa(1 << 20)\n}\nreturn s.refusal != nil && s.refusal()"}},
		Tests: onStrangers("TestAHookThatRefusesNothingIsFree$/^pgxstore$"),
	},
	{
		Name:  "what is appended is sent in the order of the handler",
		Edits: []Edit{{In: "pgxstore.queueWrites", Old: "sqlplane.InLockOrder(writes)", New: "writes"}},
		Tests: in("store/pgxstore", "TestAppendedInAJoin"),
	},
	{
		Name:  "a join forgets what was appended in it",
		Edits: []Edit{{In: "pgxstore.(*joined).Commit", Old: "append(j.user.outer.tail, j.user.tail...)", New: "append(j.user.outer.tail, j.user.tail[:0]...)"}},
		Tests: in("store/pgxstore", "TestAppendedInAJoin"),
	},
	{
		Name:  "a swap runs at the default level",
		Edits: []Edit{{In: "pgxstore.(*Store).inTransaction", Old: "beginText[store.ReadCommitted]", New: "beginText[store.DefaultIsolation]"}},
		Tests: in("store/pgxstore", "TestASwapThatLosesIsTaken"),
	},
	{
		Name:  "a swap that travels without BEGIN is not run again at READ COMMITTED",
		Edits: []Edit{{In: "pgxstore.(*Store).swap", Old: "store.KindOf(err) != store.KindRetry ||", New: "store.KindOf(err) != store.KindLost ||"}},
		Tests: in("store/pgxstore", "TestASwapThatLosesIsTaken"),
	},
	{
		Name:  "a write that may commit travels without BEGIN",
		Edits: []Edit{{In: "pgxstore.(*Store).swap", Old: "checkBatchWrites(writes, s.simple) == nil", New: "true"}},
		Tests: in("store/pgxstore", "TestASwapWithAWriteThatCommits"),
	},
	{
		Name:  "a late claim is granted at the commit",
		Edits: []Edit{{In: "pgxstore.queueSwap", Old: "!c.StaleAfter.IsZero() && c.Expect.Fence == 0", New: "false"}},
		Tests: in("store/pgxstore", "TestAClaimWritesWhatItIsTold"),
	},
	{
		Name:  "a statement of the pool whose answer is lost has failed",
		Edits: []Edit{{In: "pgxstore.(poolRunner).run", Old: "kind := store.KindLost", New: "kind := store.KindUnavailable"}},
		Tests: in("store/pgxstore", "TestAStatementOfThePoolIsLost"),
	},
	{
		Name:  "a statement that was not sent is not missed",
		Edits: []Edit{{In: "pgxstore.(txRunner).failed", Old: "r.fail(ctx, err)", New: ""}},
		Tests: in("store/pgxstore", "TestConformance$/./^SQL$/^Cancelled"),
	},
	{
		Name:  "what was appended before a migration stays prepared",
		Edits: []Edit{{In: "pgxstore.(*Store).failure", Old: "misfit(pe) {", New: "false {"}},
		Tests: in("store/pgxstore", "TestATailAfterAMigration"),
	},
	{
		Name:  "Warm opens one connection and gives it back",
		Edits: []Edit{{In: "pgxstore.(*Store).Warm", Old: "held = append(held, conn)", New: "conn.Release()"}},
		Tests: []Killer{{Module: "store/pgxstore", Test: "TestWarmOpensConnectionsAhead"}},
	},
	{
		Name:  "a standby grants claims, on pgx",
		Edits: []Edit{{In: "pgxstore.(*Store).begin", Old: "case c.recovery && (rec.State != store.StateDone || opts.Durable):", New: "case false:"}},
		Tests: failover("TestAStandbyDoesNotSettle$/^pgxstore$/^do$"),
	},
	{
		Name:  "what a standby does not have is absent, on pgx",
		Edits: []Edit{{In: "pgxstore.(*Store).look", Old: "if err == nil && recovery && r.live().State != store.StateDone {", New: "if false {"}},
		Tests: failover("TestAStandbyIsDown$/^pgxstore$/^default$"),
	},
	{
		Name:  "a connection to a standby stays in the pool, on pgx",
		Edits: []Edit{{In: "pgxstore.(*Store).begin", Old: "_ = conn.Conn().Close(ctx)", New: ""}},
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
		Name:  "statements of two connections have one name",
		Edits: []Edit{{In: "(*preparedCache).name", Old: "return p.prefix + strconv", New: `return "once_batch_" + strconv`}},
		Tests: in("store/pgxstore", "TestATransactionPoolerRunsNoOtherStatement"),
	},
	{
		Name:  "it is not told that a pooler is in between",
		Edits: []Edit{{In: "pgxstore.explained", Old: "pe != nil && (pe.Code", New: "pe != nil && false && (pe.Code"}},
		Tests: in("store/pgxstore", "TestATransactionPoolerRunsNoOtherStatement"),
	},
	{
		Name:  "a transaction ends beside a statement that is under way",
		Edits: []Edit{{In: "(*gate).end", Old: "g.state.Or(gateOver)&gateBusy != 0", New: "g.state.Or(gateOver)&0 != 0"}},
		Tests: in("store/pgxstore", "TestAStatementThatIsLeftBehind"),
	},
	{
		Name:  "two goroutines commit what both have done",
		Edits: []Edit{{In: "(*gate).collided", Old: "g.state.Load()&gateCollided != 0", New: "g.state.Load()&0 != 0"}},
		Tests: in("store/pgxstore", "TestTwoGoroutinesInOneTransaction"),
	},
	{
		Name:  "a join leaves its statement in the transaction of its caller",
		Edits: []Edit{{In: "pgxstore.(*joined).enter", Old: "cut(conn.PgConn())", New: "_ = conn"}},
		Tests: in("store/pgxstore", "TestAJoinThatLeavesAStatementBehind"),
	},
	{
		Name:  "one more join than a thousand",
		Edits: []Edit{{In: "pgxstore.(*joined).hold", Old: "j.claims.held >= pgsql.MaxJoins", New: "j.claims.held > pgsql.MaxJoins"}},
		Tests: in("store/pgxstore", "TestManyJoins"),
	},
	{
		Name:  "a join that replays keeps its claim",
		Edits: []Edit{{In: "pgxstore.leave", Old: "b.queue(undoSavepoint)", New: ""}},
		Tests: in("store/pgxstore", "TestManyJoins"),
	},
	{
		Name:  "a join that fails counts for ever",
		Edits: []Edit{{In: "pgxstore.(*joined).undo", Old: "j.claims.held--", New: ""}},
		Tests: in("store/pgxstore", "TestManyJoins"),
	},
	{
		Name:  "a server that keeps no claims is believed",
		Edits: []Edit{{In: "pgxstore.excludesLock", Old: "granted && !second", New: "granted"}},
		Tests: in("store/pgxstore", "TestAServerWithoutLocks"),
	},
	{
		Name:  "a server that does not list its locks counts as one that keeps none",
		Edits: []Edit{{In: "pgxstore.excludesLock", Old: "granted && !second", New: "false"}},
		Tests: in("store/pgxstore", "TestLocksThatAreNotListed"),
	},
	{
		Name:  "a sweeper does not ask whether the server keeps claims",
		Edits: []Edit{{In: "pgxstore.(*Store).sweepOut", Old: "if err := s.probe(ctx, conn.Conn()); err != nil", New: "if err := error(nil); err != nil"}},
		Tests: in("store/pgxstore", "TestAServerWithoutLocks"),
	},
	{
		Name:  "each operation that waits for the probe begins one",
		Edits: []Edit{{In: "pgxstore.(*Store).probeApart", Old: "case p == nil:", New: "default:"}},
		Tests: in("store/pgxstore", "TestOperationsShareTheProbe"),
	},
	{
		Name:  "each operation finds out again that the server keeps no locks, and says so",
		Edits: []Edit{{In: "pgxstore.(*Store).findOut", Old: "s.probed.Store(true)", New: ""}},
		Tests: in("store/pgxstore", "TestAServerWithoutLocks"),
	},
	{
		Name: "every operation asks whether the server keeps claims",
		Edits: []Edit{
			{In: "pgxstore.(*Store).probe", Old: "s.probed.Store(true)", New: ""},
			{In: "pgxstore.(*Store).probe", Old: "conn.PgConn().CustomData()[probedKey] == nil", New: "true"},
		},
		Tests: in("store/pgxstore", "TestTheProbeIsSentOnce"),
	},
}
