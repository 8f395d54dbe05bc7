package bugbank

// traceparentMutants are bugs of package internal/base/traceparent.
var traceparentMutants = []Mutant{
	{
		Name:  "a traceparent whose ids are zero is kept",
		Edits: []Edit{{In: "traceparent.allZero", Old: `strings.Trim(id, "0") == ""`, New: "false"}},
		Tests: in("internal/base/traceparent", "TestParseTraceparents"),
	},
	{
		Name:  "a traceparent of a later version is kept as it is",
		Edits: []Edit{{In: "traceparent.Parse", Old: `return "00" + trace[traceIDStart-1:parentIDEnd+1] + sampled`, New: "_ = sampled\nreturn value"}},
		Tests: in("internal/base/traceparent", "TestParseTraceparents"),
	},
}
