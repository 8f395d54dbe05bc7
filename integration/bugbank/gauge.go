package bugbank

// gaugeMutants are bugs of package gauge.
var gaugeMutants = []Mutant{
	{
		Name:  "a scrape asks the sources of gauges",
		Edits: []Edit{{In: "gauge.(*Watch).Values", Old: "values, age := s.last(now, rounds*w.cfg.Every)", New: "w.ask(context.Background(), s)\nvalues, age := s.last(now, rounds*w.cfg.Every)"}},
		Tests: append(in("gauge", "TestWatchKeepsTheLastValues"), Killer{Module: "onceprom", Test: "TestScrapeAsksNoSource"}),
	},
	{
		Name:  "gauges of a source that does not answer stay as they were",
		Edits: []Edit{{In: "gauge.(*watched).last", Old: "age <= most", New: "age >= 0"}},
		Tests: in("gauge", "TestStaleGaugesAreDropped"),
	},
	{
		Name:  "gauges that were never read are not old",
		Edits: []Edit{{In: "gauge.(*watched).last", Old: "return nil, now.Sub(s.since)", New: "return nil, 0"}},
		Tests: in("gauge", "TestAgeTellsThatAWatchDoesNotRun"),
	},
	{
		Name:  "a watch ends after an error",
		Edits: []Edit{{In: "gauge.(*Watch).watch", Old: "w.ask(ctx, s)", New: "w.ask(ctx, s)\nif s.failing {\nreturn\n}"}},
		Tests: in("gauge", "TestStaleGaugesAreDropped"),
	},
	{
		Name:  "a source that does not answer is asked without end",
		Edits: []Edit{{In: "gauge.(*Watch).ask", Old: "context.WithTimeout(ctx, w.cfg.Timeout)", New: "context.WithTimeout(ctx, 1000*w.cfg.Timeout)"}},
		Tests: in("gauge", "TestStaleGaugesAreDropped"),
	},
	{
		Name:  "the size of a pool is added to its connections",
		Edits: []Edit{{In: "gauge.Pool", Old: "Name: gaugename.PoolMaxConnections,", New: `Name: gaugename.PoolConnections, Label: "max",`}},
		Tests: []Killer{{Module: "integration", Package: "telemetry", Test: "TestPoolGaugesWhereNoConnectionIsFree"}},
	},
	{
		Name:  "a watch takes sources that it never asks",
		Edits: []Edit{{In: "gauge.(*Watch).Add", Old: "if w.running {", New: "if false {"}},
		Tests: in("gauge", "TestWatchTakesSourcesUntilItRuns"),
	},
}
