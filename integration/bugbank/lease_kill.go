package bugbank

// leaseKillMutants are bugs of work under leases that processes find which are killed, stopped and taken over.
var leaseKillMutants = []Mutant{
	{
		Name:  "a call is made before its intent is committed",
		Edits: []Edit{{In: "lease.(*call).begin", Old: "err := r.swap(ctx, r.running(next))", New: "err := error(nil)"}},
		Tests: onLeases("TestUnknown$/^SQLite"),
	},
	{
		Name:  "a successor sends the request that it would make itself",
		Edits: []Edit{{In: "(*call).make", Old: "request = frozen", New: "_ = frozen"}},
		Tests: onLeases("TestKillAtProvider$/^SQLite"),
	},
	{
		Name:  "a key that was voided is used again",
		Edits: []Edit{{In: "(saved).void", Old: "voided{phase, 1}", New: "voided{phase, 0}"}},
		Tests: hangsOnLeases("TestChecked$/^SQLite"),
	},
	{
		Name:  "the renewal of leases waits for a connection of the pool",
		Edits: []Edit{{In: "(*Heart).reserve", Old: "store.As[sqlplane.Reserver](h.ops); ok {", New: "store.As[sqlplane.Reserver](h.ops); ok && h == nil {"}},
		Tests: hangsOnLeases("TestExhausted$/^pgxstore"),
	},
	{
		Name:  "a lease that cannot be renewed is believed to last",
		Edits: []Edit{{In: "(*Owner).missed", Old: "time.Since(o.renewed) > ttl", New: "ttl < 0"}},
		Tests: hangsOnLeases("TestHeartbeatUnanswered"),
	},
	{
		Name:  "a phase begins while a call is under way",
		Edits: []Edit{{In: "(*Run).enter", Old: "r.saved.Call.Phase != name", New: `r.saved.Call.Phase == ""`}},
		Tests: onLeases("TestChangedProgram$/^SQLite"),
	},
	{
		Name:  "a call that nothing is said about is made again by the next owner",
		Edits: []Edit{{In: "(*Run).takeOver", Old: "!saved.Call.resumable(time.Now())", New: "!saved.Call.resumable(time.Now()) && saved.Call.Repeat"}},
		Tests: onLeases("TestUnknown$/^SQLite"),
	},
	{
		Name:  "a phase that was committed is executed again by the next owner",
		Edits: []Edit{{In: "lease.InTx", Old: "p, ok := r.saved.find(phase); ok {", New: "p, ok := r.saved.find(phase); ok && p.Failure != nil {"}},
		Tests: onLeases("TestChangedProgram$/^SQLite"),
	},
	{
		Name:  "the claim of a leased operation costs a commit of its own",
		Edits: []Edit{{In: "lease.(*Store).Begin", Old: "eager := s.cfg.Eager", New: "eager := s != nil"}},
		Tests: onLeases("TestTrips"),
	},
	{
		Name:  "a renewal whose process is stopped keeps what it has locked",
		Edits: []Edit{{In: "(*txn).boundRenewal", Old: "return t.s.dialect.timeouts(ctx, t.tx, idle)", New: "return nil"}},
		Tests: hangsOnLeases("TestStoppedInARenewal$/^PostgreSQL,_sqlstore"),
	},
	{
		Name:  "a procedure commits, and its process can tell nothing any more",
		Edits: []Edit{{In: "sqlstore.(*Store).begin", Old: "t.writeIfEnded(opts.IfEnded)", New: ""}},
		Tests: onLeases("TestKilledBehindAProcedure$/^MariaDB"),
	},
	{
		Name:  "a procedure runs although its owner has lost the operation",
		Edits: []Edit{{In: "(*Store).swapInSession", Old: "case rows != 1:", New: "case rows > 1:"}},
		Tests: onLeases("TestProcedureOfALateOwner$/^MySQL"),
	},
	{
		Name:  "a record is written by itself when a procedure of MariaDB has committed",
		Edits: []Edit{{In: "(*txn).writeMySQL", Old: "|| t.ifEnded != nil)", New: ")"}},
		Tests: onLeases("TestProcedureThatCommits$/^MariaDB"),
	},
	{
		Name:  "a phase that may have committed before its connection broke is told as not applied",
		Edits: []Edit{{In: "lease.(*transaction).runIn", Old: "t.lost, t.run.lost = undo, undo", New: "t.lost = nil"}},
		Tests: onLeases("TestProcedureAndNoDatabase$/^MySQL"),
	},
	{
		Name:  "other work loses its leases while a procedure lasts",
		Edits: []Edit{{In: "held.(*Heart).beat", Old: "tooLong || locked", New: "tooLong || locked && tooLong"}},
		Tests: onLeases("TestLongProcedure$/^MariaDB"),
	},
	{
		Name:  "a takeover waits for a transaction of the owner",
		Edits: []Edit{{In: "(*txn).replaceMySQL", Old: "if c.Expect.LeaseExpired {", New: "if c.Expect.LeaseExpired && c.KeepRequest == (c.ID.Key == \"\") {"}},
		Tests: onLeases("TestLongProcedure$/^MySQL"),
	},
}

func onLeases(test string) []Killer {
	return []Killer{{Module: "integration", Package: "lease", Test: test}}
}

// hangsOnLeases is onLeases for a test that waits for ever with the bug in place.
func hangsOnLeases(test string) []Killer {
	return []Killer{{Module: "integration", Package: "lease", Test: test, Hangs: true}}
}
