package bugbank

// crashMutants are bugs of package cmd/once/internal/torture/crash.
var crashMutants = []Mutant{
	{
		Name:  "once torture does not retry",
		Edits: []Edit{{In: "crash.(*run).retry", Old: "if a, err = r.send(ctx, key); err != nil || a.isFinal() {", New: "if true {"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestTortureOfRedis$/^stuck$"}},
	},
	{
		Name: "once torture counts before the retry",
		Edits: []Edit{
			{In: "crash.(*run).round", Old: "if s.final, s.isAnswered, err = r.retry(ctx, key); err != nil {", New: "if r.counted, err = r.Effects(ctx); err != nil { return false, err }; if s.final, s.isAnswered, err = r.retry(ctx, key); err != nil {"},
			{In: "crash.(*run).round", Old: "if r.counted, err = r.Effects(ctx); err != nil {", New: "if err != nil {"},
		},
		Tests: []Killer{{Module: "cmd/once", Test: "TestTortureAtEachPacket$/^one$"}},
	},
	{
		Name:  "once torture kills when the packet has been passed on",
		Edits: []Edit{{In: "crash.(*trap).passes", Old: "t.strike()\nreturn false", New: "t.strike()\nreturn true"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestTortureOfRedis$/^stuck$"}},
	},
	{
		Name:  "once torture kills before answers only",
		Edits: []Edit{{In: "crash.(*trap).passes", Old: "t.point.kind == after", New: "false"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestTortureOfRedis$/^stuck$"}},
	},
	{
		Name:  "once torture says a cause for each kill",
		Edits: []Edit{{In: "crash.(*run).find", Old: "f.Cause == c.name", New: "f.Cause == c.name && false"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestTortureOfRedis$/^stuck$"}},
	},
	{
		Name:  "once torture takes a refusal for an answer",
		Edits: []Edit{{In: "crash.(answer).isFinal", Old: "case 0, http.StatusConflict,", New: "case 0,"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestTortureOfRedis$/^stuck$"}},
	},
	{
		Name:  "once torture asks a service that it has not started",
		Edits: []Edit{{In: "crash.(*run).start", Old: "if r.isReached(ctx) {", New: "if r.process != nil && r.isReached(ctx) {"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestTortureTellsNothing"}},
	},
}
