package bugbank

// cacheMutants are bugs of the result cache. Those that are about more than memory are
// left to the histories.
var cacheMutants = []Mutant{
	{
		Name: "a cached replay is not compared",
		Edits: []Edit{{In: "(*call).exec", Old: `return c.found(rec)
}
until`, New: `return verdict{rec: rec, replayed: true}
}
until`}},
		Tests: []Killer{history},
	},
	{
		Name: "what stood in the way of an answer is cached as the answer",
		Edits: []Edit{{In: "(*call).finish", Old: `if !v.replayed && !v.superseded {
c.e.cache`, New: `if v.rec.State == store.StateDone {
c.e.cache`}},
		Tests: in("", "TestOnlyWhatWasCommittedHereIsCached"),
	},
	{
		Name: "the result of a join is cached",
		Edits: []Edit{{In: "(*call).finish", Old: `if !v.replayed && !v.superseded {
c.e.cache`, New: `if false {
c.e.cache`}, {
			In:  "(*call).finish",
			Old: "if c.e.cfg.Observer != nil {",
			New: `if v.err == nil && !v.replayed && !c.id.IsZero() {
	c.e.cache.Put(c.id, v.rec, c.e.retain(&c.op), c.ticket)
}
if c.e.cfg.Observer != nil {`,
		}},
		Tests: []Killer{history},
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
		Tests: in("", "TestDrop"),
	},
	{
		Name:  "a hashed key is not found by who forgets it",
		Edits: []Edit{{In: "(*Engine).InvalidateCache", Old: "keys = append(keys, keyname.Hashed(key))", New: "keys = append(keys, keyname.Hashed(key)[:0]+key)"}},
		Tests: in("", "TestDrop"),
	},
	{
		Name:  "forgetting does not reach the cache",
		Edits: []Edit{{In: "(*Keys).Forget", Old: "c.InvalidateCache(context.WithoutCancel(ctx), o.Scope, o.Key)", New: "func() error { _ = c; return nil }()"}},
		Tests: []Killer{{Module: "integration", Package: "operate", Test: "TestForgottenOverHTTP"}},
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
	{
		Name:  "a gate asks the store for what the cache has",
		Edits: []Edit{{In: "(*Engine).IsDone", Old: "if e.cache.Has(id, time.Now()) {", New: `if e.cache.Has(id, time.Time{}) && id.Key == "" {`}},
		Tests: in("oncehttp", "TestGateAsksTheCache"),
	},
}
