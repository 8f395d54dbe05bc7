package bugbank

// tortureMutants are bugs of package cmd/once/internal/torture.
var tortureMutants = []Mutant{
	{
		Name:  "once torture passes without a hit",
		Edits: []Edit{{In: "torture.(*torture).Run", Old: "case report.Hits == 0:", New: "case report.Hits < 0:"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestTortureTellsNothing"}},
	},
	{
		Name:  "once torture passes packets on to any host",
		Edits: []Edit{{In: "readProxies", Old: "probe.Allow(host, owned)", New: "probe.Allow(host, append(owned, host))"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestTortureTellsNothing"}},
	},
}
