package bugbank

// breakerMutants are bugs of package retry/breaker.
var breakerMutants = []Mutant{
	{
		Name:  "a breaker that lets one call through looks closed",
		Edits: []Edit{{In: "breaker.(*Hosts).Gauges", Old: "b.State() != gobreaker.StateClosed", New: "b.State() == gobreaker.StateOpen"}},
		Tests: []Killer{{Module: "retry/breaker", Test: "TestGaugesNameOpenBreakers"}},
	},
	{
		Name:  "a breaker has another name than its budget",
		Edits: []Edit{{In: "breaker.(*Hosts).Of", Old: "hostname.Canonical(host)", New: `hostname.Canonical(host) + ":443"`}},
		Tests: []Killer{{Module: "retry/breaker", Test: "TestSeriesJoin"}},
	},
}
