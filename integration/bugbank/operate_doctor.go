package bugbank

// operateDoctorMutants are bugs of package operate/doctor.
var operateDoctorMutants = []Mutant{
	{
		Name:  "a broker whose topics are not known is fine",
		Edits: []Edit{{In: "doctor.askDestination", Old: "if len(topics) == 0 {", New: "if len(topics) < 0 {"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestDoctorChecksTopicsBeforeTheFirstMessage"}},
	},
	{
		Name:  "the doctor asks about tables by using them",
		Edits: []Edit{{In: "doctor.(*examination).ask", Old: "if c.table != \"\" {", New: "if c.table == \"once\" {"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestMissingTablesAreNoErrorsOfPostgreSQL"}},
	},
	{
		Name:  "sync_binlog is judged without a binary log",
		Edits: []Edit{{In: "askSyncBinlog", Old: `err != nil || log != "ON"`, New: `err != nil || log == ""`}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestDoctorWaits"}},
	},
	{
		Name:  "the doctor does not see why migrate up would fail",
		Edits: []Edit{{In: "(*examination).rehearse", Old: `err != nil && !sqlguard.IsMissing(err)`, New: `err != nil && sqlguard.IsMissing(err)`}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestDoctorAccess"}},
	},
	{
		Name:  "the database of a service that only writes receipts fails without operations",
		Edits: []Edit{{In: "doctor.hasOnlyReceipts", Old: "len(has) > 0", New: "len(has) == 0"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestDoctorOfReceiptsAlone"}},
	},
	{
		Name:  "a table that was dropped is not missed",
		Edits: []Edit{{In: "(*examination).dropped", Old: "err == nil && !ok {", New: "err == nil && !ok && len(has) == 0 {"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestDoctorAccess"}},
	},
	{
		Name:  "a user who may only read is fine",
		Edits: []Edit{{In: "askPrivileges", Old: `"explain "+statement`, New: `"explain "+statement[:0]+"select 1"`}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestDoctorAccess"}},
	},
	{
		Name:  "replicas of MySQL are not asked for",
		Edits: []Edit{{In: "askReplicas", Old: `r.mysql && r.enabled != "ON"`, New: `r.mysql && r.enabled == "ON"`}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestDoctorReplicas"}},
	},
	{
		Name:  "the doctor does not see a move that has not ended",
		Edits: []Edit{{In: "doctor.askHomeMoves", Old: "err != nil || n == 0", New: "err != nil || n >= 0"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestHomeMoveIsKilled$/^SQLite$"}},
	},
	{
		Name:  "once's own tables may be MyISAM's",
		Edits: []Edit{{In: "judgeEngines", Old: `bad = fail`, New: `bad = warn`}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestDoctorEngines"}},
	},
	{
		Name:  "a replica that takes writes is fine",
		Edits: []Edit{{In: "judgeReadOnly", Old: `case following:`, New: `case following && session == "ON":`}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestDoctorReplicas"}},
	},
	{
		Name:  "the doctor asks for no arguments in packets",
		Edits: []Edit{{In: "doctor.askPackets", Old: `"do 0; do ?"`, New: `"do ?"`}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestDoctorAccess"}},
	},
	{
		Name:  "the doctor does not ask PgBouncer what it closes",
		Edits: []Edit{{In: "askIdlePostgres", Old: `settings["client_idle_timeout"]`, New: `settings["no_such_setting"]`}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestDoctorIdleConnections"}},
	},
	{
		Name:  "the doctor does not see that MySQL closes idle connections",
		Edits: []Edit{{In: "askIdleMySQL", Old: "judge(shortIdle)", New: "judge(0*shortIdle)"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestDoctorIdleConnectionsMySQL"}},
	},
	{
		Name:  "doctor: what a store may lose is not said",
		Edits: []Edit{{In: "doctor.storeChecks", Old: `{name: "volatile", ask: askVolatile},`, New: ""}},
		Tests: []Killer{{Module: ".", Package: "operate/doctor", Test: "TestAStoreWithoutSQL"}},
	},
	{
		Name:  "the doctor does not see calls under way",
		Edits: []Edit{{In: "doctor.askCalls", Old: `calling+" and not ("+ofSagas+")"`, New: `"not "+calling+" and not ("+ofSagas+")"`}},
		Tests: restored("TestRestoredCalls"),
	},
	{
		Name:  "the doctor does not see that numbers were moved",
		Edits: []Edit{{In: "doctor.askNumbers", Old: "after > p.RestoredTo.UnixMilli()", New: "after > p.RestoredTo.UnixMicro()"}},
		Tests: restored("TestARestoredSender"),
	},
	{
		Name:  "the doctor does not see that no runner runs",
		Edits: []Edit{{In: "doctor.askDueSagas", Old: "late > overdueBound", New: "late < 0"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestDoctorOfSagas"}},
	},
	{
		Name:  "after a restore no saga is uncertain",
		Edits: []Edit{{In: "doctor.askSagasAgain", Old: "p.unfinished(), ofSagas,", New: "p.unfinished(), \"not (\"+ofSagas+\")\","}},
		Tests: restored("TestRestoredSagas"),
	},
	{
		Name:  "after a restore no request of a journal is uncertain",
		Edits: []Edit{{In: "doctor.askIntentsAgain", Old: `"once_intent", "1 = 1"`, New: `"once_intent", "1 = 0"`}},
		Tests: restored("TestARestoredJournal"),
	},
	{
		Name:  "after a restore no webhook is uncertain",
		Edits: []Edit{{In: "doctor.askWebhooksAgain", Old: `"1 = 1", "e.uid"`, New: `"1 = 0", "e.uid"`}},
		Tests: restored("TestRestoredWebhooks"),
	},
}
