package bugbank

// meterMutants are bugs of package internal/meter.
var meterMutants = []Mutant{
	{
		Name:  "a replay is counted as an execution",
		Edits: []Edit{{In: "meter.DecisionOf", Old: "return DecisionDBHit", New: "return DecisionNewExecution"}},
		Tests: append(in("internal/meter", "TestDecisionOfEveryOutcome"), Killer{Module: "integration", Package: "telemetry", Test: "TestCountersAgreeWithTheDatabase$/^SQLite$"}),
	},
	{
		Name:  "a key is a label",
		Edits: []Edit{{In: "meter.(*Meter).Operation", Old: "m.operations.Value(e.Name)", New: "m.operations.Value(e.Name + e.KeyHash)"}},
		Tests: []Killer{{Module: "onceprom", Test: "TestSeriesAreConstant"}},
	},
	{
		Name:  "counters of rare events begin with the first of them",
		Edits: []Edit{{In: "meter.(*Meter).Operation", Old: "if first {", New: "if first && name == \"\" {"}},
		Tests: append(in("internal/meter", "TestRareCountersBeginAtZero"), Killer{Module: "onceprom", Test: "TestRareCountersAreExportedAtZero"}),
	},
	{
		Name:  "the first settled commit is no increase",
		Edits: []Edit{{In: "meter.(*Meter).Operation", Old: "zero := instrument.One(instrument.Settled, name, effectOf(effect))\n\t\t\tzero.Value = 0\n\t\t\trecord(zero)", New: "_ = effect"}},
		Tests: in("internal/meter", "TestRareCountersBeginAtZero"),
	},
}
