package bugbank

// probeMutants are bugs of package cmd/once/internal/check/probe.
var probeMutants = []Mutant{
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
		Tests: []Killer{{Module: "cmd/once", Package: "internal/check/probe", Test: "TestPaceIsFiveRequestsPerSecond"}},
	},
}
