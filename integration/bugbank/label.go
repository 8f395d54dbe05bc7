package bugbank

// labelMutants are bugs of package internal/base/label.
var labelMutants = []Mutant{
	{
		Name: "a label has any number of values",
		Edits: []Edit{
			{In: "label.(*Set).Value", Old: "len(s.values) >= Most", New: "len(s.values) >= 1000*Most"},
			{In: "label.(*Set).add", Old: "len(s.values) >= Most", New: "len(s.values) >= 1000*Most"},
		},
		Tests: append(in("gauge", "TestGaugesHaveBoundedLabels"), in("internal/base/label", "TestSetIsBounded")...),
	},
}
