package bugbank

// memstoreMutants are bugs of package store/memstore.
var memstoreMutants = []Mutant{
	{
		Name:  "an expectation compares the fence alone",
		Edits: []Edit{{In: "memstore.matches", Old: "!bytes.Equal(rec.Nonce, expect.Nonce)", New: "false"}},
		Tests: in("store/memstore", "TestConformance$/^Swap$/^Reclaimed$"),
	},
	{
		Name:  "a hold is known by its fence alone",
		Edits: []Edit{{In: "memstore.holds", Old: "&& bytes.Equal(r.rec.Nonce, h.Nonce)", New: ""}},
		Tests: in("store/memstore", "TestConformance$/^Lease$/^Renew$"),
	},
	{
		Name:  "an operation whose lease is over is no longer held",
		Edits: []Edit{{In: "(*Tx).check", Old: "if !holds(t.seen(h.ID), h) {", New: "if !holds(t.seen(h.ID), h) || t.seen(h.ID).lapsed(t.s.now()) {"}},
		Tests: in("store/memstore", "TestConformance$/^Clock$/^Held$"),
	},
	{
		Name:  "what is held may be lost before the caller's transaction commits",
		Edits: []Edit{{In: "(*Tx).validate", Old: "if !holds(t.s.live(h.ID), h) {", New: "if false {"}},
		Tests: in("store/memstore", "TestConformance$/^Clock$/^HeldUntilCommit$"),
	},
	{
		Name:  "a takeover does not see that the lease was renewed meanwhile",
		Edits: []Edit{{In: "(*Tx).validate", Old: "if p.takesOver && !t.s.live(p.id).lapsed(t.s.now()) {", New: "if p.takesOver && false {"}},
		Tests: in("store/memstore", "TestConformance$/^Clock$/^RenewedMeanwhile$"),
	},
	{
		Name:  "a narrow change writes the request anew",
		Edits: []Edit{{In: "memstore.newRow", Old: "r.rec.Fingerprint, r.rec.Request, r.rec.Trace, r.rec.Name = old.rec.Fingerprint, old.rec.Request, old.rec.Trace, old.rec.Name", New: "r.rec.Fingerprint, r.rec.Trace, r.rec.Name = old.rec.Fingerprint, old.rec.Trace, old.rec.Name"}},
		Tests: in("store/memstore", "TestConformance$/^Clock$/^TruthTable$"),
	},
	{
		Name:  "a narrow change loses the name",
		Edits: []Edit{{In: "memstore.newRow", Old: "r.rec.Trace, r.rec.Name = old.rec.Fingerprint, old.rec.Request, old.rec.Trace, old.rec.Name", New: "r.rec.Trace = old.rec.Fingerprint, old.rec.Request, old.rec.Trace"}},
		Tests: in("store/memstore", "TestConformance$/^Clock$/^TruthTable$"),
	},
	{
		Name:  "a listing does not look at the name",
		Edits: []Edit{{In: "memstore.(*Store).Unfinished", Old: "page.Name != \"\" && rec.Name != page.Name", New: "false"}},
		Tests: in("store/memstore", "TestConformance$/^Lease$/^Unfinished$"),
	},
	{
		Name:  "a listing does not look at the state",
		Edits: []Edit{{In: "memstore.(*Store).Unfinished", Old: "page.State != store.StateAbsent && rec.State != page.State", New: "false"}},
		Tests: in("store/memstore", "TestConformance$/^Lease$/^Unfinished$"),
	},
	{
		Name:  "a listing of a prefix goes on behind it",
		Edits: []Edit{{In: "memstore.(*Store).Unfinished", Old: "(page.Before == \"\" || id.Scope < page.Before)", New: "true"}},
		Tests: in("store/memstore", "TestConformance$/^Lease$/^Unfinished$"),
	},
	{
		Name:  "a commit writes done whatever it is asked",
		Edits: []Edit{{In: "memstore.newRow", Old: "r := &row{rec: detach(c.Next)}", New: "r := &row{rec: detach(c.Next)}\nr.rec.State = store.StateDone"}},
		Tests: in("store/memstore", "TestConformance$/^Clock$/^BecomesLease$"),
	},
	{
		Name:  "a change that is too late is applied",
		Edits: []Edit{{In: "(*Tx).check", Old: "c.Expect.Fence == 0 && t.s.late(c.StaleAfter)", New: "false"}},
		Tests: in("store/memstore", "TestConformance$/^Swap$/^StaleAfter$"),
	},
	{
		Name:  "a lease that is over cannot be renewed",
		Edits: []Edit{{In: "memstore.(*Store).renew", Old: "if !holds(old, h) {", New: "if !holds(old, h) || old.lapsed(s.now()) {"}},
		Tests: in("store/memstore", "TestConformance$/^Lease$/^Renew$/^Revives$"),
	},
	{
		Name:  "a page of unfinished operations begins with the last one before",
		Edits: []Edit{{In: "memstore.(*Store).Unfinished", Old: "compare(id, page.After) > 0", New: "compare(id, page.After) >= 0"}},
		Tests: in("store/memstore", "TestConformance$/^Lease$/^Unfinished$"),
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
		Name:  "a write in a transaction of the caller leaves it with an error",
		Edits: []Edit{{In: "memstore.(*Store).Write", Old: "tx.undo(since)", New: "tx.err = errors.Join(err, ctx.Err())\n_ = since"}},
		Tests: onSaga("TestStartInTheCallersTransaction"),
	},
}
