package bugbank

// oncepromMutants are bugs of package onceprom.
var oncepromMutants = []Mutant{
	{
		Name:  "a trace id that is too long ends the request",
		Edits: []Edit{{In: "onceprom.(*Metrics).record", Old: "len(id) <= maxTraceID", New: "len(id) >= 0"}},
		Tests: []Killer{{Module: "onceprom", Test: "TestExemplarsNameTheTrace"}},
	},
	{
		Name:  "a replay has the trace of another call as its exemplar",
		Edits: []Edit{{In: "onceprom.(*Metrics).traceID", Old: "e.Outcome != once.OutcomeExecuted && e.Outcome != once.OutcomeDeclined", New: "e.Outcome == \"\""}},
		Tests: []Killer{{Module: "onceprom", Test: "TestExemplarsNameTheTrace"}},
	},
}
