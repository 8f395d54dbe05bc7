package bugbank

// cmdDoctorMutants are bugs of package cmd/once/internal/doctor.
var cmdDoctorMutants = []Mutant{
	{
		Name:  "the doctor migrates",
		Edits: []Edit{{In: "doctor.(*Database).rehearse", Old: `cfg.Params[readOnly] = "1"`, New: `cfg.Params[readOnly] = "0"`}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestDoctorAccess"}},
	},
}
