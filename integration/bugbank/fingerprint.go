package bugbank

// fingerprintMutants are bugs of package internal/base/fingerprint.
var fingerprintMutants = []Mutant{
	{
		Name:  "fingerprints of two rules are compared",
		Edits: []Edit{{In: "fingerprint.Differ", Old: "a[0] == ruled", New: "a[0] == version1"}},
		Tests: in("oncehttp", "TestAnotherCompare"),
	},
	{
		Name:  "the parts of a fingerprint run into each other",
		Edits: []Edit{{In: "fingerprint.Of", Old: "h.Write(size[:])", New: ""}},
		Tests: in("", "TestFingerprintIsStable"),
	},
}
