package bugbank

// jsonpointerMutants are bugs of package internal/base/jsonpointer.
var jsonpointerMutants = []Mutant{
	{
		Name:  "of two members of one name the pointer means the first",
		Edits: []Edit{{In: "(*finder).object", Old: "f.oneReading = f.oneReading && !seen[name]", New: ""}},
		Tests: in("oncehttp", "TestCompareChosenFields"),
	},
}
