package bugbank

// cliMutants are bugs of the frame of the command.
var cliMutants = []Mutant{
	{
		Name:  "the file of settings wins over the environment",
		Edits: []Edit{{In: "(*Env).configure", Old: `v := m.getenv(variable); v != ""`, New: `v := m.getenv(variable); v != "" && value == ""`}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestSettings"}},
	},
	{
		Name:  "the environment wins over the command line",
		Edits: []Edit{{In: "(*Env).configure", Old: "isNever || f.Changed", New: "isNever"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestSettings"}},
	},
	{
		Name:  "a demo finds the database of a service",
		Edits: []Edit{{In: "OnCommandLine", Old: "annotate(fs, flag, never, nil)", New: "FromEnv(fs, flag, `ONCE_DB`)"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestSettings"}},
	},
	{
		Name:  "a mistake in the file of settings is taken for a default",
		Edits: []Edit{{In: "(*Env).settings", Old: "bytes.NewReader(text), yaml.Strict()", New: "bytes.NewReader(text)"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestSettings"}},
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
		Name:  "once check asks a host that is not named",
		Edits: []Edit{{In: "probe.Allow", Old: "isLoopback(host) ||", New: "true ||"}},
		Tests: []Killer{{Module: "cmd/once", Package: "internal/check/probe", Test: "TestNothingIsSentElsewhere"}},
	},
	{
		Name:  "once check asks what a name resolves to",
		Edits: []Edit{{In: "probe.onlyLoopback", Old: "!isLoopback(host)", New: "false"}},
		Tests: []Killer{{Module: "cmd/once", Package: "internal/check/probe", Test: "TestNothingIsSentElsewhere"}},
	},
	{
		Name:  "once check says one cause for each check",
		Edits: []Edit{{In: "probe.(*Probe).find", Old: "f.Cause == c.name", New: "f.Cause == c.name && f.Checks[0] == p.now"}},
		Tests: []Killer{{Module: "cmd/once", Package: "internal/check/probe", Test: "TestEachBugIsSaidOnce"}},
	},
	{
		Name:  "once check takes a key that is repeated for another answer",
		Edits: []Edit{{In: "probe.withoutKey", Old: "strings.Trim(key, `\"`)", New: "\"\\x00\""}},
		Tests: []Killer{{Module: "cmd/once", Package: "internal/check/probe", Test: "TestEachBugIsSaidOnce"}},
	},
	{
		Name:  "once check follows its pace with each request but those at once",
		Edits: []Edit{{In: "probe.(*Probe).atOnce", Old: "p.pace.take(ctx, len(messages))", New: "p.pace.take(ctx, 1)"}},
		Tests: []Killer{{Module: "cmd/once", Package: "internal/check/probe", Test: "TestPace"}},
	},
	{
		Name:  "an option of curl that is not understood is left out",
		Edits: []Edit{{In: "request.(*curl).option", Old: "if !ok {", New: "if !ok { return taken, nil }; if !ok {"}},
		Tests: []Killer{{Module: "cmd/once", Package: "internal/request", Test: "TestWhatIsNotUnderstoodIsAnError"}},
	},
	{
		Name:  "a pause does not wait for --yes",
		Edits: []Edit{{In: "outbox.(*pause).Run", Old: "!c.yes", New: "false"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestOutboxCommands$/^SQLite$"}},
	},
}
