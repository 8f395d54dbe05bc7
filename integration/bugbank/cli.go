package bugbank

// cliMutants are bugs of package cmd/once/internal/cli.
var cliMutants = []Mutant{
	{
		Name:  "the hash of a key leads nowhere",
		Edits: []Edit{{In: "keys.printView", Old: "strings.TrimPrefix(v.Key, keyURN)", New: "v.Key"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestKeysShowOfAHash"}},
	},
	{
		Name:  "the file of settings wins over the environment",
		Edits: []Edit{{In: "(*Env).configure", Old: `v := m.getenv(variable); v != ""`, New: `v := m.getenv(variable); v != "" && value == ""`}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestSettingsByPrecedence"}},
	},
	{
		Name:  "the environment wins over the command line",
		Edits: []Edit{{In: "(*Env).configure", Old: "isNever || f.Changed", New: "isNever"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestSettingsByPrecedence"}},
	},
	{
		Name:  "a demo finds the database of a service",
		Edits: []Edit{{In: "OnCommandLine", Old: "annotate(fs, flag, never, nil)", New: "FromEnv(fs, flag, `ONCE_DB`)"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestSettingsByPrecedence"}},
	},
	{
		Name:  "a mistake in the file of settings is taken for a default",
		Edits: []Edit{{In: "(*Env).settings", Old: "bytes.NewReader(text), yaml.Strict()", New: "bytes.NewReader(text)"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestSettingsByPrecedence"}},
	},
	{
		Name:  "nothing found is a failure like any other",
		Edits: []Edit{{In: "exitCode", Old: "errors.As(err, new(*nothingError))", New: "false"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestExitCodes"}},
	},
	{
		Name:  "a database that is not reached is a failure like any other",
		Edits: []Edit{{In: "exitCode", Old: "errors.As(err, new(*unreachableError))", New: "false"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestExitCodes"}},
	},
	{
		Name:  "a secret in a flag is repeated",
		Edits: []Edit{{In: "flagError", Old: `invalid.GetFlag().Value.Type() == "func"`, New: "false"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestSecretsOfFlagsAreNotRepeated"}},
	},
	{
		Name:  "a letter that died after a person has looked is discarded",
		Edits: []Edit{{In: "(*Between).Read", Old: "*before, err = instant(", New: "_, err = instant("}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestDeadletterBefore$/^SQLite$"}},
	},
	{
		Name:  "the command waits for a silent server",
		Edits: []Edit{{In: "Reached", Old: "db.PingContext(bounded)", New: "db.PingContext(ctx)"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestSilentServer", Hangs: true}},
	},
	{
		Name:  "a password is echoed",
		Edits: []Edit{{In: "ParseSource", Old: `strings.ContainsAny(dsn, "@=")`, New: `strings.ContainsAny(dsn, "=")`}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestPasswordsAreNotEchoed"}},
	},
}
