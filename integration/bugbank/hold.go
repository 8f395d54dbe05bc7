package bugbank

// holdMutants are bugs of package internal/sql/hold.
var holdMutants = []Mutant{
	{
		Name:  "a part that is taken keeps its fence",
		Edits: []Edit{{In: "(*table).take", Old: "fence = fence + 1", New: "fence = fence + 0"}},
		Tests: onHold("TestFencesInRandomSteps$/^SQLite"),
	},
	{
		Name: "a part is taken before its holder has expired",
		Edits: []Edit{
			{In: "(*table).take", Old: "n.expires > NOW", New: "n.expires < NOW"},
			{In: "(*runner).balance", Old: "case shares:", New: "case shares && p.node == r.node:"},
		},
		Tests: onHold("TestPartsInUseStay$/^SQLite"),
	},
	{
		Name:  "a part in use is let go",
		Edits: []Edit{{In: "(*Holder).idle", Old: "p.leaving && h.uses[p.Number] == 0", New: "p.leaving"}},
		Tests: onHold("TestPartsInUseStay$/^SQLite"),
	},
	{
		Name:  "each node holds one part too many",
		Edits: []Edit{{In: "hold.share", Old: "slices.Index(order, node) < parts%len(order)", New: "0 < parts%len(order)"}},
		Tests: in("internal/sql/hold", "TestShareSpreadsPartsEvenly"),
	},
	{
		Name:  "a process that cannot renew believes that it holds",
		Edits: []Edit{{In: "(*Holder).usable", Old: "!time.Now().Before(h.until)", New: "h.until.IsZero()"}},
		Tests: hangsOnHold("TestChangedIsCalledForEachChange"),
	},
	{
		Name:  "a node expires by the clock of its process",
		Edits: []Edit{{In: "(*table).renew", Old: "values (?, ?, AGO(?), ?, ?)", New: "values (?, ?, ?, ?, ?)"}, {In: "(*table).renew", Old: "t.fromNow()", New: "time.Now().Add(t.ttl).UnixMilli()"}},
		Tests: hangsOnHold("TestClockTakeover$/^MariaDB"),
	},
	{
		Name:  "nodes that live lose their parts when the clock is set ahead",
		Edits: []Edit{{In: "(*runner).balance", Old: `p.node == "" || time.Now().After(r.settled)`, New: "true"}},
		Tests: onHold("TestClockKeeps$/^MariaDB"),
	},
	{
		Name:  "a node that died before the clock was set back lives on",
		Edits: []Edit{{In: "(*runner).tidy", Old: "range v.ahead {", New: "range v.ahead[:0] {"}},
		Tests: hangsOnHold("TestClockTakeover$/^MariaDB"),
	},
	{
		Name:  "a node expires by the TTL of another one",
		Edits: []Edit{{In: "(*table).look", Old: "if ttl > 0 {", New: "if ttl < 0 {"}},
		Tests: hangsOnHold("TestDifferentTTLs$/^SQLite"),
	},
	{
		Name:  "a heartbeat waits for a connection of the pool",
		Edits: []Edit{{In: "hold.reserve", Old: "ok {", New: "ok && r == nil {"}},
		Tests: hangsOnHold("TestExhaustedPoolStillRenews$/^MariaDB"),
	},
	{
		Name:  "a part is taken between the check of its fence and the change",
		Edits: []Edit{{In: "hold.Locked", Old: "order by part FOR SHARE", New: "order by part"}},
		Tests: onHold("TestStillHeld$/^pgxstore"),
	},
	{
		Name:  "the parts of a node that drains wait until it has gone",
		Edits: []Edit{{In: "(*table).look", Old: "case leaving == 1:", New: "case leaving == 2:"}},
		Tests: hangsOnHold("TestDrainReleasesUnusedPartsAtOnce$/^SQLite"),
	},
}
