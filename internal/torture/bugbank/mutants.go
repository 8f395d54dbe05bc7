package bugbank

import "slices"

var (
	core      = Killer{Module: ".", Package: "store/memstore", Test: "TestConformance"}
	pgx       = Killer{Module: "pgxstore", Package: "", Test: "TestConformance$/^prepared"}
	misbehave = Killer{Module: "pgxstore", Package: "", Test: "TestHandlersThatMisbehave"}
)

// in returns a test of a package of the root module.
func in(pkg, test string) []Killer { return []Killer{{Module: ".", Package: pkg, Test: test}} }

// Mutants are the seeded bugs.
var Mutants = slices.Concat(everywhere, failovers, nths)

var everywhere = []Mutant{
	{
		Name: "the key is committed before the effect",
		Edits: []Edit{{
			File: "pgxstore/txn.go",
			Old:  "		queueDone(&b, c, t.claim.start)\n	}\n	queueWrites(&b, t.user.tail)",
			New: "		early, n := new(pgx.Batch), c.Next\n" +
				"		early.Queue(`insert into once_operation (scope, key, claim, status, kind, body) values ($1, $2, $3, $4, $5, $6)`, c.ID.Scope, c.ID.Key, n.Claim, n.Result.Status, n.Result.Kind, n.Result.Body)\n" +
				"		other, err := pgx.ConnectConfig(ctx, t.conn.Conn().Config())\n" +
				"		if err != nil {\n			return err\n		}\n" +
				"		if err := other.SendBatch(ctx, early).Close(); err != nil {\n			return err\n		}\n" +
				"		_ = other.Close(ctx)\n	}\n	queueWrites(&b, t.user.tail)",
		}},
		Tests: []Killer{misbehave},
	},
	{
		Name: "the effect is committed before the key",
		Edits: []Edit{{
			File: "pgxstore/txn.go",
			Old:  "		queueDone(&b, c, t.claim.start)\n	}\n	queueWrites(&b, t.user.tail)\n	queueWrites(&b, c.Writes)\n	b.queue(commit)",
			New:  "	}\n	queueWrites(&b, t.user.tail)\n	queueWrites(&b, c.Writes)\n	b.queue(commit)\n	b.queue(`begin`)\n	if record >= 0 {\n		queueDone(&b, c, t.claim.start)\n	}\n	b.queue(commit)",
		}, {
			File: "internal/pgsql/pgsql.go",
			Old:  "values ($1, $2, $3, $4, $5, $6, $7, $8, clock_timestamp() + $9 * interval '1 ms', 2 / (now() = $10)::int)`\n",
			New:  "values ($1, $2, $3, $4, $5, $6, $7, $8, clock_timestamp() + $9 * interval '1 ms', 2 + 0 * coalesce(extract(epoch from $10::timestamptz)::int, 0))`\n",
		}},
		Tests: []Killer{pgx},
	},
	{
		Name: "the lock of an operation has 32 bits",
		Edits: []Edit{{
			File: "internal/pgsql/pgsql.go",
			Old:  "return int64(binary.BigEndian.Uint64(h[:8]))",
			New:  "return int64(int32(binary.BigEndian.Uint64(h[:8])))",
		}},
		Tests: in("internal/pgsql", "TestLockIDsAre64Bits"),
	},
	{
		Name: "the fingerprint is ignored",
		Edits: []Edit{{
			File: "fingerprint.go",
			Old:  "return f.IsZero() || len(s) == 0",
			New:  "return true || f.IsZero() || len(s) == 0",
		}},
		Tests: in("oncehttp", "TestMismatch"),
	},
	{
		Name: "the scope is ignored",
		Edits: []Edit{{
			File: "operation.go",
			Old:  "return store.ID{Scope: op.Scope, Key: op.Key}",
			New:  "return store.ID{Scope: \"all\", Key: op.Key}",
		}},
		Tests: in("oncehttp", "TestScope"),
	},
	{
		Name: "a swallowed statement error is committed, under database/sql",
		Edits: []Edit{{
			File: "internal/sqlguard/txn.go",
			Old:  "	t.failure.Store(f)\n",
			New:  "	_ = f\n",
		}},
		Tests: in("internal/sqlguard", "TestEveryErrorPoisons"),
	},
	{
		Name: "an error that only the client has seen is committed over",
		Edits: []Edit{{
			File: "pgxstore/tx.go",
			Old:  "		t.err = err\n",
			New:  "		_ = err\n",
		}},
		Tests: []Killer{misbehave},
	},
	{
		Name: "a handler's own COMMIT goes unnoticed",
		Edits: []Edit{{
			File: "pgxstore/txn.go",
			Old:  "	case pc.TxStatus() == 'I':\n		kind, err = store.Ended, errEnded\n",
			New:  "",
		}, {
			File: "internal/pgsql/pgsql.go",
			Old:  "values ($1, $2, $3, $4, $5, $6, $7, $8, clock_timestamp() + $9 * interval '1 ms', 2 / (now() = $10)::int)`\n",
			New:  "values ($1, $2, $3, $4, $5, $6, $7, $8, clock_timestamp() + $9 * interval '1 ms', 2 + 0 * coalesce(extract(epoch from $10::timestamptz)::int, 0))`\n",
		}},
		Tests: []Killer{misbehave},
	},
	{
		Name: "a lost COMMIT counts as rolled back",
		Edits: []Edit{{
			File: "settle.go",
			Old:  "	case store.Lost:\n		return c.settle(ctx, ch, err)\n",
			New:  "	case store.Lost:\n		return verdict{err: c.fail(CodeUnavailable, NotApplied, err)}\n",
		}},
		Tests: []Killer{core},
	},
	{
		Name: "settling believes a stale look-up",
		Edits: []Edit{{
			File: "settle.go",
			Old:  "return err == nil && rec.State == store.Absent && !bytes.Equal(rec.Claim, ch.Next.Claim)",
			New:  "return err == nil && rec.State <= store.Done",
		}},
		Tests: in("", "TestSettleDoesNotTrustAStaleLookUp"),
	},
	{
		Name: "the caller's cancellation ends COMMIT",
		Edits: []Edit{{
			File: "exec.go",
			Old:  "tail := c.tail(ctx)\n	defer tail.end()\n	c.ticket",
			New:  "tail, cancel := context.WithTimeout(ctx, c.e.cfg.Settle)\n	defer cancel()\n	c.ticket",
		}},
		Tests: in("", "TestCancelDoesNotEndACommit"),
	},
	{
		Name: "a panic leaves its operation in flight",
		Edits: []Edit{{
			File: "exec.go",
			Old:  "defer func() { c.e.flights.leave(c.id, fl, v.rec, learnt) }()",
			New:  "defer func() {\n		if v.err != nil || v.rec.State != store.Absent {\n			c.e.flights.leave(c.id, fl, v.rec, learnt)\n		}\n	}()",
		}},
		Tests: []Killer{core},
	},
	{
		Name: "a collision on the primary key is an error",
		Edits: []Edit{{
			File: "exec.go",
			Old:  "store.KindOf(v.err) == store.Taken && v.again && collisions < maxCollisions",
			New:  "store.KindOf(v.err) == store.Taken && v.again && collisions < 0",
		}, {
			File: "exec.go",
			Old:  "		case v.again && c.runs < c.e.cfg.Runs:\n			c.observe",
			New:  "		case v.again && store.KindOf(v.err) != store.Taken && c.runs < c.e.cfg.Runs:\n			c.observe",
		}},
		Tests: []Killer{{Module: "pgxstore", Test: "TestACollisionIsAReplay"}},
	},
	{
		Name: "the writes of a declined operation are committed",
		Edits: []Edit{{
			File: "do.go",
			Old:  "Rollback: !f.Keep}",
			New:  "Rollback: false}",
		}},
		Tests: []Killer{core},
	},
	{
		Name: "a stale holder's fence is accepted",
		Edits: []Edit{{
			File: "internal/pgsql/pgsql.go",
			Old:  "expected       = `state <> 2 and fence = $17 and",
			New:  "expected       = `state <> 2 and fence >= $17 * 0 and",
		}},
		Tests: []Killer{pgx},
	},
	{
		Name: "an expired operation is replayed",
		Edits: []Edit{{
			File: "pgxstore/pgxstore.go",
			Old:  "	case r.expired:\n",
			New:  "	case false:\n",
		}},
		Tests: []Killer{pgx},
	},
	{
		Name: "401 is stored",
		Edits: []Edit{{
			File: "oncehttp/preset.go",
			Old:  "401: Forget, ",
			New:  "",
		}},
		Tests: in("oncehttp", "TestVerdicts"),
	},
	{
		Name: "Set-Cookie is stored and replayed to whoever asks",
		Edits: []Edit{{
			File: "oncehttp/plan.go",
			Old:  "\"Set-Cookie\"",
			New:  "\"Set-Biscuit\"",
		}},
		Tests: in("oncehttp", "TestHeaders"),
	},
	{
		Name: "a batch that was never sent is committed over",
		Edits: []Edit{{
			File: "pgxstore/batch.go",
			Old:  "		return b.t.note(err)\n",
			New:  "",
		}},
		Tests: []Killer{misbehave},
	},
	{
		Name: "clearing the way for a new record deletes a living one",
		Edits: []Edit{{
			File: "internal/pgsql/pgsql.go",
			Old:  "where scope = $1 and key = $2 and state = 2 and expires_at <= now()`",
			New:  "where scope = $1 and key = $2 and state = 2`",
		}},
		Tests: []Killer{{Module: "pgxstore", Test: "TestExpiredSparesTheLiving"}},
	},
	{
		Name: "a join undoes to the savepoint of a join inside of it",
		Edits: []Edit{{
			File: "pgxstore/join.go",
			Old:  "rollback to savepoint once_join; release savepoint once_join",
			New:  "rollback to savepoint once_join",
		}},
		Tests: []Killer{pgx},
	},
	{
		Name: "the caller's time is the time of its connection's next user",
		Edits: []Edit{{
			File: "internal/pgsql/pgsql.go",
			Old:  "`', $1, true) where `",
			New:  "`', $1, false) where `",
		}},
		Tests: []Killer{{Module: "pgxstore", Test: "TestBudget"}},
	},
}
