package bugbank

// gaugenameMutants are bugs of package internal/base/gaugename.
var gaugenameMutants = []Mutant{
	{
		Name:  "the name of an instrument is against the rules of Prometheus",
		Edits: []Edit{{In: "gaugename.Age", Old: `"once_watch_age_seconds"`, New: `"once_gauge_age_seconds"`}},
		Tests: []Killer{{Module: "onceprom", Test: "TestPromtoolCheckMetrics"}},
	},
}
