package bugbank

// mysqlurlMutants are bugs of package cmd/once/internal/mysqlurl.
var mysqlurlMutants = []Mutant{
	{
		Name:  "parameters in a URL of MySQL are ignored",
		Edits: []Edit{{In: "mysqlurl.Parse", Old: `mysql.ParseDSN("/?" + u.RawQuery)`, New: `mysql.ParseDSN("/")`}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestMySQLSaysWhatIsWrong"}},
	},
}
