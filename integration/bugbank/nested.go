package bugbank

// nestedMutants are bugs of package internal/base/nested.
var nestedMutants = []Mutant{
	{
		Name:  "two functions are one because their code is",
		Edits: []Edit{{In: "nested.equal", Old: "same(reflect.ValueOf(a.Interface()), reflect.ValueOf(b.Interface()))", New: "a.Pointer() == b.Pointer()"}},
		Tests: in("internal/base/nested", "TestDifferenceNamesTheField"),
	},
	{
		Name:  "two quotas are one because they have counted the same",
		Edits: []Edit{{In: "nested.equal", Old: "!hasState(a.Type().Elem()) && ", New: ""}},
		Tests: in("internal/base/nested", "TestDifferenceNamesTheField"),
	},
}
