package bugbank

// processMutants are bugs of package cmd/once/internal/process.
var processMutants = []Mutant{
	{
		Name:  "once torture kills nothing",
		Edits: []Edit{{In: "process.(*Process).Kill", Old: "p.stdin.Close()\n<-p.done", New: ""}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestTortureOfRedis$/^stuck$"}},
	},
	{
		Name: "once torture leaves the children of its command running",
		Edits: []Edit{
			{In: "process.guard", Old: "syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)", New: "syscall.Kill(cmd.Process.Pid, syscall.SIGKILL)"},
			{In: "process.endAdopted", Old: "len(found) == 0", New: "true"},
		},
		Tests: []Killer{{Module: "cmd/once", Test: "TestTortureEnds"}},
	},
	{
		Name:  "once torture leaves processes running that have left the group",
		Edits: []Edit{{In: "process.endAdopted", Old: "len(found) == 0", New: "true"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestTortureEnds"}},
	},
}
