package bugbank

// natsMutants are bugs of package cmd/once/full/internal/nats.
var natsMutants = []Mutant{
	{
		Name:  "the doctor does not tell of a dangerous consumer",
		Edits: []Edit{{In: "nats.checkConsumers", Old: "findings = append(findings, list...)", New: "_ = list"}},
		Tests: []Killer{{Module: "cmd/once/full", Package: "once", Test: "TestDoctorAsksConsumers"}},
	},
}
