package bugbank

// sqlitegroupMutants are bugs of package internal/sql/sqlitegroup.
var sqlitegroupMutants = []Mutant{
	{
		Name: "an operation is answered before the COMMIT of its group",
		Edits: []Edit{{In: "(*Member).Commit", Old: "m.leave(true)", New: `m.leave(true)
if m.group != nil {
	return nil
}`}},
		Tests: group("TestGroupAnswersAfterTheCommit"),
	},
	{
		Name: "a replay is answered before the COMMIT of what it has found",
		Edits: []Edit{{In: "(*Member).RolledBack", Old: `if !m.groupEnded() {
	return &store.Error{Kind: store.KindBusy, Err: errNotEnded}
}
if m.group.err != nil {`, New: "if false {"}},
		Tests: group("TestGroupAnswersAfterTheCommit"),
	},
	{
		Name:  "deferred constraints are left to the COMMIT of the group",
		Edits: []Edit{{In: "(*memberTx).Commit", Old: "case open:", New: "case open && p.over == nil:"}},
		Tests: group("TestGroupConstraintsDoNotMix"),
	},
	{
		Name:  "a member that fails stays in its group",
		Edits: []Edit{{In: "(*memberTx).Rollback", Old: "err := s.Run(ctx, undoMember)", New: "var err error"}},
		Tests: group("TestGroupMembersHurtNobody"),
	},
	{
		Name:  "a group that a member has rolled back counts as committed",
		Edits: []Edit{{In: "(*Member).leave", Old: "m.groups.end(errRolledBack)", New: "m.groups.end(nil)"}},
		Tests: group("TestGroupMembersHurtNobody"),
	},
	{
		Name:  "those whose COMMIT has failed meet again",
		Edits: []Edit{{In: "(*groups).end", Old: "g.runAlone(ended.ids...)", New: ""}},
		Tests: group("TestGroupThatFailsIsAlone"),
	},
	{
		Name:  "a setting of one member is in force for the next",
		Edits: []Edit{{In: "(*Member).leave", Old: "m.group.closed = m.group.closed || m.txn.pragma.Load()", New: ""}},
		Tests: group("TestGroupMembersHurtNobody"),
	},
	{
		Name:  "a member may hold the file for ever",
		Edits: []Edit{{In: "(*Member).limit", Old: "most = min(most, maxGuest)", New: "most = 24 * time.Hour"}},
		Tests: group("TestGroupHoldsNobodyForEver"),
	},
	{
		Name: "who leaves the line keeps his place in it",
		Edits: []Edit{{In: "(*line).wait", Old: `l.queue = slices.Delete(l.queue, i, i+1)
return err`, New: "return err"}},
		Tests: group("TestSQLiteLineGoesOn"),
	},
	{
		Name:  "a sweeper that waits for the file keeps the only connection",
		Edits: []Edit{{In: "(*File).Relaxed", Old: "f.db.Stats().MaxOpenConnections != 1 &&", New: ""}},
		Tests: []Killer{{Module: "integration", Package: "sqlstore", Test: "TestSQLiteSweepSparesConnections", Hangs: true}},
	},
	{
		Name:  "groups leave no time to other processes",
		Edits: []Edit{{In: "(*groups).next", Old: "g.leave()", New: "g.pass()"}},
		Tests: in("internal/sql/sqlitegroup", "TestLineLeavesTheFileAlone"),
	},
	{
		Name:  "the line pauses for too short a time for SQLite's own wait",
		Edits: []Edit{{In: "(*line).leave", Old: "pause = min(longPause, l.busyTimeout/20)", New: "pause = shortPause"}},
		Tests: in("internal/sql/sqlitegroup", "TestLineLeavesTheFileAlone"),
	},
}
