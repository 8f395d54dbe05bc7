package bugbank

// metricsMutants count something else than what has happened, or too much of it: series without bound, gauges that
// are read in a scrape or are stale.
var metricsMutants = []Mutant{
	{
		Name:  "a replay is counted as an execution",
		Edits: []Edit{{In: "meter.DecisionOf", Old: "return DecisionDBHit", New: "return DecisionNewExecution"}},
		Tests: append(in("internal/meter", "TestDecisionOfEveryOutcome"), Killer{Module: "integration", Package: "telemetry", Test: "TestCountersAgreeWithTheDatabase$/^SQLite$"}),
	},
	{
		Name:  "a key is a label",
		Edits: []Edit{{In: "meter.(*Meter).Operation", Old: "m.operations.Value(e.Name)", New: "m.operations.Value(e.Name + e.KeyHash)"}},
		Tests: []Killer{{Module: "onceprom", Test: "TestSeriesAreConstant"}},
	},
	{
		Name: "a label has any number of values",
		Edits: []Edit{
			{In: "label.(*Set).Value", Old: "len(s.values) >= Most", New: "len(s.values) >= 1000*Most"},
			{In: "label.(*Set).add", Old: "len(s.values) >= Most", New: "len(s.values) >= 1000*Most"},
		},
		Tests: append(in("gauge", "TestGaugesHaveBoundedLabels"), in("internal/base/label", "TestSetIsBounded")...),
	},
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
		Name:  "a rerun is told that does not follow",
		Edits: []Edit{{In: "(*call).execWithoutKey", Old: "if !sleep.For(ctx, rand.N(firstDelay)) {", New: "c.observe(ctx, EventRerun, v.err)\nif !sleep.For(ctx, rand.N(firstDelay)) {"}},
		Tests: in("", "TestPauseEndsWithTheContext"),
	},
	{
		Name:  "gauges that were never read are not old",
		Edits: []Edit{{In: "gauge.(*watched).last", Old: "return nil, now.Sub(s.since)", New: "return nil, 0"}},
		Tests: in("gauge", "TestAgeTellsThatAWatchDoesNotRun"),
	},
	{
		Name:  "a trace id that is too long ends the request",
		Edits: []Edit{{In: "onceprom.(*Metrics).record", Old: "len(id) <= maxTraceID", New: "len(id) >= 0"}},
		Tests: []Killer{{Module: "onceprom", Test: "TestExemplars"}},
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
		Name:  "gauges count all rows of a table",
		Edits: []Edit{{In: "deadletter.(*Letters).Gauges", Old: "int64(upkeep.MaxBacklog)", New: "int64(10*upkeep.MaxBacklog)"}},
		Tests: []Killer{{Module: "integration", Package: "telemetry", Test: "TestGaugesAreBounded"}},
	},
	{
		Name:  "counters of rare events begin with the first of them",
		Edits: []Edit{{In: "meter.(*Meter).Operation", Old: "if first {", New: "if first && name == \"\" {"}},
		Tests: append(in("internal/meter", "TestRareCountersBeginAtZero"), Killer{Module: "onceprom", Test: "TestRareCountersAreExportedAtZero"}),
	},
	{
		Name:  "a replay has the trace of another call as its exemplar",
		Edits: []Edit{{In: "onceprom.(*Metrics).traceID", Old: "e.Outcome != once.OutcomeExecuted && e.Outcome != once.OutcomeDeclined", New: "e.Outcome == \"\""}},
		Tests: []Killer{{Module: "onceprom", Test: "TestExemplars"}},
	},
	{
		Name:  "a deadlock of a Join is told twice",
		Edits: []Edit{{In: "once.(*call).observeEnd", Old: "e.Outcome == Outcome(CodeConflict) && c.e.currentFrame(ctx) == nil", New: "e.Outcome == Outcome(CodeConflict)"}},
		Tests: in(".", "TestDeadlocksAreTold"),
	},
	{
		Name:  "a deadlock of MariaDB is not known as one",
		Edits: []Edit{{In: "sqlstore.(*Store).IsDeadlock", Old: "is(err, mysqlDeadlock)", New: "is(err, mysqlChanged)"}},
		Tests: []Killer{{Module: "integration", Package: "telemetry", Test: "TestDeadlocksAreCounted$/^MariaDB$"}},
	},
	{
		Name:  "who looks whether the cache has a result counts as a hit",
		Edits: []Edit{{In: "replay.(*Cache).Has", Old: "return c.find(id, now) != nil", New: "found := c.find(id, now) != nil\nc.hits++\nreturn found"}},
		Tests: in(".", "TestCacheGauges"),
	},
	{
		Name:  "the name of an instrument is against the rules of Prometheus",
		Edits: []Edit{{In: "gaugename.Age", Old: `"once_watch_age_seconds"`, New: `"once_gauge_age_seconds"`}},
		Tests: []Killer{{Module: "onceprom", Test: "TestPromtoolCheckMetrics"}},
	},
	{
		Name:  "the size of a pool is added to its connections",
		Edits: []Edit{{In: "gauge.Pool", Old: "Name: gaugename.PoolMaxConnections,", New: `Name: gaugename.PoolConnections, Label: "max",`}},
		Tests: []Killer{{Module: "integration", Package: "telemetry", Test: "TestPoolGaugesWhereNoConnectionIsFree"}},
	},
}
