package bugbank

import "slices"

var (
	core      = Killer{Module: ".", Package: "store/memstore", Test: "TestConformance"}
	pgx       = Killer{Module: "store/pgxstore", Package: "", Test: "TestConformance$/^prepared"}
	misbehave = Killer{Module: "store/pgxstore", Package: "", Test: "TestHandlersThatMisbehave"}
)

// in returns a test of a package of the root module.
func in(pkg, test string) []Killer { return []Killer{{Module: ".", Package: pkg, Test: test}} }

// Mutants are the seeded bugs.
var Mutants = slices.Concat(everywhere, failovers, nths)

var everywhere = []Mutant{
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
		Name: "the lock of an operation has 32 bits",
		Edits: []Edit{{
			In:  "LockID",
			Old: "return int64(binary.BigEndian.Uint64(h[:8]))",
			New: "return int64(int32(binary.BigEndian.Uint64(h[:8])))",
		}},
		Tests: in("internal/sql/pgsql", "TestLockIDsAre64Bits"),
	},
	{
		Name: "the fingerprint is ignored",
		Edits: []Edit{{
			In:  "(Fingerprint).matches",
			Old: "return f.isZero()",
			New: "return true || f.isZero()",
		}},
		Tests: in("oncehttp", "TestMismatch"),
	},
	{
		Name: "the scope is ignored",
		Edits: []Edit{{
			In:  "(*Engine).id",
			Old: "return store.ID{Scope: scope, Key: key}",
			New: `return store.ID{Scope: "all", Key: key}`,
		}},
		Tests: in("oncehttp", "TestScope"),
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
		Name: "a lost COMMIT counts as rolled back",
		Edits: []Edit{{
			In:  "(*call).committed",
			Old: "return c.settle(ctx, txn, ch, err)",
			New: "return verdict{err: c.fail(CodeUnavailable, EffectNotApplied, err)}",
		}},
		Tests: []Killer{core},
	},
	{
		Name: "settling believes a stale look-up",
		Edits: []Edit{{
			In:  "(*call).isAbsent",
			Old: "return err == nil && rec.State == store.StateAbsent && !bytes.Equal(rec.Nonce, ch.Next.Nonce)",
			New: "return err == nil && rec.State <= store.StateDone",
		}},
		Tests: in("", "TestSettleDoesNotTrustAStaleLookUp"),
	},
	{
		Name: "the caller's cancellation ends COMMIT",
		Edits: []Edit{{
			In: "(*call).commit",
			Old: `uncancelled := c.uncancelled(ctx)
defer uncancelled.end()
c.ticket`,
			New: `uncancelled, cancel := context.WithTimeout(ctx, c.e.cfg.Settle)
defer cancel()
c.ticket`,
		}},
		Tests: in("", "TestCancelDoesNotEndACommit"),
	},
	{
		Name: "a panic leaves its operation in flight",
		Edits: []Edit{{
			In:  "(*call).lead",
			Old: "defer func() { f.End(c.id, v.rec, final) }()",
			New: `defer func() {
	if v.err != nil || v.rec.State != store.StateAbsent {
		f.End(c.id, v.rec, final)
	}
}()`,
		}},
		Tests: []Killer{core},
	},
	{
		Name: "a collision on the primary key is an error",
		Edits: []Edit{{
			In:  "(*call).lead",
			Old: "store.KindOf(v.err) == store.KindTaken && v.again && collisions < maxCollisions",
			New: "store.KindOf(v.err) == store.KindTaken && v.again && collisions < 0",
		}, {
			In: "(*call).lead",
			Old: `case v.again && c.runs < c.e.cfg.Runs:
if !sleep`,
			New: `case v.again && store.KindOf(v.err) != store.KindTaken && c.runs < c.e.cfg.Runs:
if !sleep`,
		}},
		Tests: []Killer{{Module: "store/pgxstore", Test: "TestACollisionIsAReplay"}},
	},
	{
		Name: "the writes of a declined operation are committed",
		Edits: []Edit{{
			In:  "once.answer",
			Old: "Rollback: !f.CommitWrites}",
			New: "Rollback: false}",
		}},
		Tests: []Killer{core},
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
		Name: "an expired operation is replayed",
		Edits: []Edit{{
			In:  "pgxstore.(row).live",
			Old: "case r.expired:",
			New: "case false:",
		}},
		Tests: []Killer{pgx},
	},
	{
		Name: "401 is stored",
		Edits: []Edit{{
			In:  "DefaultPreset",
			Old: "401: VerdictDiscard,",
			New: "",
		}},
		Tests: in("oncehttp", "TestVerdicts"),
	},
	{
		Name: "Set-Cookie is stored and replayed to every caller",
		Edits: []Edit{{
			In:  "neverStored",
			Old: `"Set-Cookie"`,
			New: `"Set-Biscuit"`,
		}},
		Tests: in("oncehttp", "TestHeaders"),
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
		Name: "clearing the way for a new record deletes a living one",
		Edits: []Edit{{
			In:  "pgsql.Expired",
			Old: "`delete from once_operation where scope = $1 and key = $2 and state = 2 and expires_at <= now()`",
			New: "`delete from once_operation where scope = $1 and key = $2 and state = 2`",
		}},
		Tests: []Killer{{Module: "store/pgxstore", Test: "TestExpiredSparesTheLiving"}},
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
		Name: "the caller's time is the time of its connection's next user",
		Edits: []Edit{{
			In:  "tighten",
			Old: "`, true) end`",
			New: "`, false) end`",
		}},
		Tests: []Killer{{Module: "store/pgxstore", Test: "TestBudget"}},
	},
}
