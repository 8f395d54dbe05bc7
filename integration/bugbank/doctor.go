package bugbank

// doctorMutants are bugs of once doctor, and of the command, on MySQL and MariaDB.
var doctorMutants = []Mutant{
	{
		Name:  "the doctor does not see why migrate up would fail",
		Edits: []Edit{{In: "(*examination).rehearse", Old: `err != nil && !sqlguard.IsMissing(err)`, New: `err != nil && sqlguard.IsMissing(err)`}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestDoctorAccess"}},
	},
	{
		Name:  "the doctor migrates",
		Edits: []Edit{{In: "doctor.(*Database).rehearse", Old: `cfg.Params[readOnly] = "1"`, New: `cfg.Params[readOnly] = "0"`}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestDoctorAccess"}},
	},
	{
		Name:  "a table that was dropped is not missed",
		Edits: []Edit{{In: "(*examination).dropped", Old: `sqlguard.IsMissing(err) {`, New: `sqlguard.IsMissing(err) && len(has) == 0 {`}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestDoctorAccess"}},
	},
	{
		Name:  "a user who may only read is fine",
		Edits: []Edit{{In: "askPrivileges", Old: `"explain "+statement`, New: `"explain "+statement[:0]+"select 1"`}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestDoctorAccess"}},
	},
	{
		Name:  "parameters in a URL of MySQL are ignored",
		Edits: []Edit{{In: "mysqlurl.Parse", Old: `mysql.ParseDSN("/?" + u.RawQuery)`, New: `mysql.ParseDSN("/")`}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestMySQLSaysWhatIsWrong"}},
	},
	{
		Name:  "replicas of MySQL are not asked for",
		Edits: []Edit{{In: "askReplicas", Old: `r.mysql && r.enabled != "ON"`, New: `r.mysql && r.enabled == "ON"`}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestDoctorReplicas"}},
	},
	{
		Name:  "a migration of the demo's service that was cut is not completed",
		Edits: []Edit{{In: "isThere", Old: `|| e.Number == 1061`, New: ``}},
		Tests: []Killer{{Module: "cmd/once", Package: "internal/payments", Test: "TestMigrateWithRows"}},
	},
}
