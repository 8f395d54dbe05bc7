package bugbank

// replayMutants are bugs of package internal/engine/replay.
var replayMutants = []Mutant{
	{
		Name:  "who looks whether the cache has a result counts as a hit",
		Edits: []Edit{{In: "replay.(*Cache).Has", Old: "return c.find(id, now) != nil", New: "found := c.find(id, now) != nil\nc.hits++\nreturn found"}},
		Tests: in(".", "TestCacheGauges"),
	},
	{
		Name:  "a cached result does not end",
		Edits: []Edit{{In: "(*Cache).find", Old: "if e.expired(now) {", New: "if false {"}},
		Tests: []Killer{history},
	},
	{
		Name:  "a cached result outlives its record",
		Edits: []Edit{{In: "replay.(*Cache).Put", Old: "min(c.life, retain/2)", New: "c.life"}},
		Tests: in("", "TestACachedResultEnds"),
	},
	{
		Name:  "a result that is forgotten while it is committed is cached afterwards",
		Edits: []Edit{{In: "replay.(*Cache).Put", Old: "c.drops != t.drops", New: "false"}},
		Tests: in("", "TestInvalidateCacheDropsAResult"),
	},
	{
		Name:  "a cached key keeps the header of which it is a part",
		Edits: []Edit{{In: "newEntry", Old: "store.ID{Scope: keep(id.Scope), Key: keep(id.Key)}", New: "id"}},
		Tests: in("internal/engine/replay", "TestCacheIsBounded"),
	},
	{
		Name:  "the cache removes its oldest result, also if it was just used",
		Edits: []Edit{{In: "(*Cache).find", Old: "c.order.MoveToFront(element)", New: ""}},
		Tests: in("internal/engine/replay", "TestCacheKeepsWhatIsAskedFor"),
	},
	{
		Name:  "one result takes the room of all others",
		Edits: []Edit{{In: "replay.(*Cache).Put", Old: "if e.size > c.size/minResults {", New: "if e.size > c.size {"}},
		Tests: in("internal/engine/replay", "TestCacheKeepsWhatIsAskedFor"),
	},
}
