package bugbank

// history is random histories of the engine on memstore, held against a model.
var history = Killer{Module: "integration", Package: "property", Test: "TestHistories"}

// engineMutants are bugs of the root package and of memstore. Most of them are left to
// the histories, which were not written with any of them in mind.
var engineMutants = []Mutant{
	{
		Name: "settling believes that what is absent stays absent",
		Edits: []Edit{{
			In: "(*call).settle",
			Old: `again, rec, err := c.e.store.Begin(ctx, store.BeginOptions{ID: ch.ID, Durable: true})
applied = applied || err == nil && bytes.Equal(rec.Nonce, ch.Next.Nonce)
switch {`,
			New: `rec, err := c.e.store.Read(ctx, ch.ID)
applied = applied || err == nil && bytes.Equal(rec.Nonce, ch.Next.Nonce)
var again store.Transaction[TX]
switch {
case err == nil && rec.State == store.StateAbsent:
	return verdict{err: c.fail(CodeUnavailable, EffectNotApplied, lost), again: true}`,
		}},
		Tests: []Killer{history},
	},
	{
		Name: "settling takes the record of another call for its own",
		Edits: []Edit{{
			In:  "(*call).settle",
			Old: "rec.State == store.StateDone && applied:",
			New: "rec.State == store.StateDone && (applied || len(rec.Nonce) > 0):",
		}},
		Tests: []Killer{history},
	},
	{
		Name: "a commit that was applied and has expired counts as not applied",
		Edits: []Edit{
			{In: "(*call).settle", Old: "case again != nil && applied:", New: "case again != nil && applied && len(rec.Nonce) < 0:"},
			{In: "(*call).isAbsent", Old: "rec.State == store.StateAbsent && !bytes.Equal(rec.Nonce, ch.Next.Nonce)", New: "rec.State == store.StateAbsent"},
		},
		Tests: in("", "TestSettleWhatHasExpired"),
	},
	{
		Name:  "who waits is told of a commit that has expired and been done again",
		Edits: []Edit{{In: "(*call).lead", Old: "final = !v.superseded", New: "final = true"}},
		Tests: in("", "TestSettleWhatWasDoneAgain"),
	},
	{
		Name:  "a commit that has expired and been done again is kept in the cache",
		Edits: []Edit{{In: "(*call).finish", Old: "if !v.replayed && !v.superseded {", New: "if !v.replayed {"}},
		Tests: in("", "TestSettleWhatWasDoneAgain"),
	},
	{
		Name: "settling takes the claim of a COMMIT on its way for that of another call",
		Edits: []Edit{{
			In:  "(*call).settle",
			Old: "rec.State == store.StateDone:",
			New: "rec.State != store.StateAbsent: // somebody else's",
		}},
		Tests: []Killer{history},
	},
	{
		Name: "a lost Swap counts as not applied when the operation is absent",
		Edits: []Edit{{
			In:  "(*call).swap",
			Old: "store.KindOf(err) == store.KindLost && v.again {",
			New: "store.KindOf(err) == store.KindRetry && v.again {",
		}},
		Tests: []Killer{history},
	},
	{
		Name: "a call runs again while its Swap is on its way",
		Edits: []Edit{{
			In:  "(*call).swap",
			Old: "v = c.storeFailed(unsettled, err)",
			New: "v.err = c.storeFailed(unsettled, err).err",
		}},
		Tests: in("", "TestALostSwapStaysInDoubt"),
	},
	{
		Name: "a call in doubt runs again",
		Edits: []Edit{{
			In:  "(*call).settle",
			Old: "verdict{err: c.fail(CodeUnavailable, EffectInDoubt, errors.Join(lost, err))}",
			New: "verdict{err: c.fail(CodeUnavailable, EffectInDoubt, errors.Join(lost, err)), again: true}",
		}},
		Tests: []Killer{history},
	},
	{
		Name: "a handler's own COMMIT is said to be undone",
		Edits: []Edit{{
			In:  "outcomesByKind",
			Old: "handler: misuseInDoubt, commit: misuseInDoubt}",
			New: "handler: misuseInDoubt, commit: misuse}",
		}},
		Tests: []Killer{history},
	},
	{
		Name: "a replay that is read first is not compared",
		Edits: []Edit{{
			In:  "(*call).readFirst",
			Old: "return c.found(rec), true",
			New: "return verdict{rec: rec, replayed: true}, true",
		}},
		Tests: []Killer{history},
	},
	{
		Name: "replays are read first where they must be durable",
		Edits: []Edit{{
			In:  "(*call).readFirst",
			Old: "c.lookUp.done || c.e.cfg.Synced ||",
			New: "c.lookUp.done ||",
		}},
		Tests: []Killer{history},
	},
	{
		Name: "a follower takes its leader's answer uncompared",
		Edits: []Edit{{
			In:  "once.(*call).follow",
			Old: "return c.found(*rec), true",
			New: "return verdict{rec: *rec, replayed: true}, true",
		}},
		Tests: in("", "TestFollowersCompareFingerprints"),
	},
	{
		Name: "the observer is told that what is in doubt was applied",
		Edits: []Edit{{
			In:  "(*call).observeEnd",
			Old: "Outcome(CodeOf(v.err)), EffectOf(v.err)",
			New: "Outcome(CodeOf(v.err)), max(EffectOf(v.err), EffectNotApplied)",
		}},
		Tests: []Killer{history},
	},
	{
		Name: "an operation's own retention is ignored",
		Edits: []Edit{{
			In:  "(*call).change",
			Old: "Retain: c.e.retain(&c.op)",
			New: "Retain: c.e.cfg.Retain",
		}},
		Tests: []Killer{history},
	},
	{
		Name: "memstore's Swap ignores the fence",
		Edits: []Edit{{
			In:  "memstore.matches",
			Old: "case rec.State == store.StateDone, rec.Fence != expect.Fence:",
			New: "case rec.State == store.StateDone:",
		}},
		Tests: []Killer{history},
	},
	{
		Name: "a takeover need not wait for the lease",
		Edits: []Edit{{
			In:  "memstore.matches",
			Old: "return !expect.LeaseExpired || rec.LeaseExpired",
			New: "return true",
		}},
		Tests: []Killer{history},
	},
	{
		Name: "records expire by the clock of the process",
		Edits: []Edit{{
			In:  "(*Store).live",
			Old: "r.expired(s.now())",
			New: "r.expired(time.Now())",
		}, {
			In:  "(*Store).read",
			Old: "if r.expired(now) {",
			New: "if r.expired(time.Now()) {",
		}},
		Tests: []Killer{history},
	},
	{
		Name: "leases lapse by the clock of the process",
		Edits: []Edit{{
			In:  "(*row).record",
			Old: "rec.LeaseExpired = r.lapsed(now)",
			New: "rec.LeaseExpired = r.lapsed(time.Now())",
		}},
		Tests: []Killer{history},
	},
	{
		Name: "a claim outlives its rolled back transaction",
		Edits: []Edit{{
			In: "memstore.(*txn).Rollback",
			Old: `return &store.Error{Kind: store.KindEnded, Err: errEnded}
}
t.tx.end()
return nil`,
			New: `return &store.Error{Kind: store.KindEnded, Err: errEnded}
}
t.tx.over = true
return nil`,
		}},
		Tests: []Killer{history},
	},
	{
		Name: "who has lost a race comes back at once",
		Edits: []Edit{{In: "(*call).lead", Old: `if !sleep.For(ctx, rand.N(delay)) {
	return v
}`, New: ""}},
		Tests: in("", "TestPauseBeforeARerun"),
	},
	{
		Name:  "those who have lost a race come back together",
		Edits: []Edit{{In: "(*call).lead", Old: "sleep.For(ctx, rand.N(delay))", New: "sleep.For(ctx, delay)"}},
		Tests: in("", "TestPauseBeforeARerun"),
	},
	{
		Name:  "work without a key comes back at once",
		Edits: []Edit{{In: "(*call).execWithoutKey", Old: "sleep.For(ctx, rand.N(firstDelay))", New: "sleep.For(ctx, 0)"}},
		Tests: in("", "TestPauseBeforeARerun"),
	},
	{
		Name:  "a redirect is a success that has touched nothing",
		Edits: []Edit{{In: "(*call).observeEffectOutside", Old: "a.Result.Status >= 300 ||", New: ""}},
		Tests: in("", "TestEffectOutsideTx"),
	},
}
