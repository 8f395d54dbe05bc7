package bugbank

// heldMutants are bugs of package internal/held.
var heldMutants = []Mutant{
	{
		Name:  "a batch that may yet be applied is told as not applied",
		Edits: []Edit{{In: "held.(*Owner).Swap", Old: "c.Expect.Fence == 0:", New: "c.Expect.Fence < 0:"}},
		Tests: in("lease", "TestEveryTwoPointsFail"),
	},
	{
		Name:  "a phase does not raise the fence",
		Edits: []Edit{{In: "held.(*Owner).Under", Old: "c.Next.Fence = o.fence + 1", New: "c.Next.Fence = o.fence"}},
		Tests: onLease("TestPropertiesOfRandomSchedules"),
	},
	{
		Name:  "a lost phase takes what another owner has stored for its own",
		Edits: []Edit{{In: "held.(*Owner).IsApplied", Old: "bytes.Equal(rec.Nonce, o.Nonce)", New: "bytes.Equal(rec.Nonce, rec.Nonce)"}},
		Tests: onLease("TestPhaseOfAnotherOwner"),
	},
	{
		Name:  "a write takes what another owner has stored for its own",
		Edits: []Edit{{In: "held.isOwn", Old: "bytes.Equal(rec.Nonce, c.Next.Nonce)", New: "bytes.Equal(rec.Nonce, rec.Nonce)"}},
		Tests: onLease("TestPropertiesOfRandomSchedules"),
	},
	{
		Name:  "an owner that has lost its lease goes on",
		Edits: []Edit{{In: "held.(*Owner).missed", Old: "return o.fence == h.Fence && o.writing == 0 && !o.closed", New: "return false"}},
		Tests: onLease("TestTakenOverInTheSameProcess"),
	},
	{
		Name:  "a phase that was left open keeps the work for as long as its process lives",
		Edits: []Edit{{In: "held.(*Owner).Adopt", Old: "|| o.closed ", New: ""}},
		Tests: onLease("TestPhaseThatIsLeftOpen"),
	},
	{
		Name: "a run is not told that another engine of its process has its work",
		Edits: []Edit{
			{In: "held.ownedBy", Old: "owned{h.ID, string(h.Nonce)}", New: `owned{h.ID, ""}`},
		},
		Tests: onLease("TestTakenOverInTheSameProcess"),
	},
	{
		Name:  "the renewal of leases waits for a connection of the pool",
		Edits: []Edit{{In: "(*Heart).reserve", Old: "store.As[sqlplane.Reserver](h.ops); ok {", New: "store.As[sqlplane.Reserver](h.ops); ok && h == nil {"}},
		Tests: hangsOnLeases("TestExhaustedPoolStillRenews$/^pgxstore"),
	},
	{
		Name:  "a lease that cannot be renewed is believed to last",
		Edits: []Edit{{In: "(*Owner).missed", Old: "time.Since(o.renewed) > ttl", New: "ttl < 0"}},
		Tests: hangsOnLeases("TestHeartbeatUnanswered"),
	},
	{
		Name:  "other work loses its leases while a procedure lasts",
		Edits: []Edit{{In: "held.(*Heart).beat", Old: "tooLong || state == ownerLocked", New: "tooLong"}},
		Tests: onLeases("TestLongProcedure$/^MariaDB"),
	},
	{
		Name:  "leases are not renewed while a write of another operation waits for a row",
		Edits: []Edit{{In: "held.(*Heart).beat", Old: "if state == ownerWriting {", New: "if state == ownerLocked {"}},
		Tests: hangsOnLeases("TestARowThatIsLockedCostsNoOtherLease$/^pgxstore"),
	},
}
