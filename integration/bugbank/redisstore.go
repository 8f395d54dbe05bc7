package bugbank

// redisstoreMutants are bugs of package store/redisstore.
var redisstoreMutants = []Mutant{
	{
		Name:  "Redis: the client sends commands again",
		Edits: []Edit{{In: "redisstore.New", Old: "rdb.Options().MaxRetries > 0", New: "rdb.Options().MaxRetries > 3"}},
		Tests: redisTest("TestNewRefusesUnsafeClients"),
	},
	{
		Name:  "Redis: a volatile record is no matter",
		Edits: []Edit{{In: "redisstore.New", Old: "!cfg.VolatileRecord", New: "!cfg.VolatileRecord && cfg.Replicas > 0"}},
		Tests: redisTest("TestNewRefusesUnsafeClients"),
	},
	{
		Name:  "Redis: a server that evicts keys will do",
		Edits: []Edit{{In: "redisstore.(*Store).problem", Old: `info["maxmemory_policy"] != "noeviction"`, New: `info["maxmemory_policy"] == ""`}},
		Tests: redisTest("TestCheckRefusesUnsafeServers"),
	},
	{
		Name:  "Redis: a server without a file will do",
		Edits: []Edit{{In: "redisstore.(*Store).problem", Old: `info["aof_enabled"] != "1"`, New: `info["aof_enabled"] == ""`}},
		Tests: redisTest("TestCheckRefusesUnsafeServers"),
	},
	{
		Name:  "Redis: a server that never flushes its file will do",
		Edits: []Edit{{In: "redisstore.(*Store).problem", Old: `info[appendfsync] == "no"`, New: `info[appendfsync] == "never"`}},
		Tests: redisTest("TestCheckRefusesUnsafeServers"),
	},
	{
		Name:  "Redis: only a program that asks learns that its server is unsafe",
		Edits: []Edit{{In: "redisstore.(*Store).Swap", Old: "err := s.checkOnce(ctx); err != nil", New: "err := s.checkOnce(ctx); err == errTables"}},
		Tests: redisTest("TestUnsafeServersTakeNoOperation"),
	},
	{
		Name:  "Redis: a server is checked before each claim",
		Edits: []Edit{{In: "redisstore.(*Store).checkOnce", Old: "s.checked.Store(true)", New: ""}},
		Tests: redisTest("TestCheckBeforeTheFirstClaim"),
	},
	{
		Name:  "Redis: a server that forbids the check is refused",
		Edits: []Edit{{In: "redisstore.(*Store).checkOnce", Old: "err != nil && !forbidden(err)", New: "err != nil"}},
		Tests: redisTest("TestCheckBeforeTheFirstClaim"),
	},
	{
		Name:  "Redis: a server that does not answer the check now is never checked",
		Edits: []Edit{{In: "redisstore.forbidden", Old: `(redis.HasErrorPrefix(err, "NOPERM") ||`, New: `(err != nil ||`}},
		Tests: redisTest("TestCheckBeforeTheFirstClaim"),
	},
	{
		Name:  "Redis: a write whose answer was lost was not applied",
		Edits: []Edit{{In: "redisstore.failed", Old: "writes && !neverSent(err)", New: "writes && neverSent(err)"}},
		Tests: redisTest("TestEachCommandFails"),
	},
	{
		Name:  "Redis: a server that says no for now says no for ever",
		Edits: []Edit{{In: "redisstore.failed", Old: "!slices.ContainsFunc(unavailable,", New: "slices.ContainsFunc(unavailable,"}},
		Tests: redisTest("TestAStandbyIsDown"),
	},
	{
		Name:  "Redis: what no replica has confirmed is written",
		Edits: []Edit{{In: "redisstore.(*Store).Swap", Old: `answer[0] == "applied" && !confirmed`, New: `answer[0] == "taken" && !confirmed`}},
		Tests: redisTest("TestReplicasMustConfirm"),
	},
	{
		Name:  "Redis: a read waits for no replica",
		Edits: []Edit{{In: "redisstore.(*Store).Read", Old: "len(f) > 0 && !confirmed", New: "len(f) > 99 && !confirmed"}},
		Tests: redisTest("TestReplicasMustConfirm"),
	},
	{
		Name:  "Redis: a script that has only read leaves nothing to wait for",
		Edits: []Edit{{In: "redisstore.readText", Old: "#record > 0 and ARGV[1] == '1'", New: "#record > 0 and ARGV[1] == '2'"}},
		Tests: redisTest("TestReplicasMustConfirm"),
	},
	{
		Name:  "Redis: one's own record, which no replica has confirmed, proves a write",
		Edits: []Edit{{In: "redisstore.(*Store).Swap", Old: "case !confirmed: return", New: "case false && !confirmed: return"}},
		Tests: redisTest("TestReplicasMustConfirm"),
	},
	{
		Name:  "Redis: WAIT goes on a connection of its own",
		Edits: []Edit{{In: "redisstore.(*Store).send", Old: `wait = pipe.Do(ctx,`, New: `wait = s.rdb.Do(ctx,`}},
		Tests: redisTest("TestReplicasMustConfirm"),
	},
	{
		Name:  "Redis: the fence is not compared",
		Edits: []Edit{{In: "redisstore.swapText", Old: "is[2] == fence and", New: ""}},
		Tests: redisTest("TestConformance$/^Clock$"),
	},
	{
		Name:  "Redis: fences are compared as numbers",
		Edits: []Edit{{In: "redisstore.swapText", Old: "is[2] == fence and", New: "tonumber(is[2]) == tonumber(fence) and"}},
		Tests: redisTest("TestFencesCompareEveryDigit"),
	},
	{
		Name:  "Redis: the nonce is not compared",
		Edits: []Edit{{In: "redisstore.swapText", Old: "(nonce == '' or is[3] == nonce)", New: "true"}},
		Tests: redisTest("TestConformance$/^Swap$"),
	},
	{
		Name:  "Redis: a lease need not be over",
		Edits: []Edit{{In: "redisstore.swapText", Old: "is[4] and now >= tonumber(is[4])", New: "is[4]"}},
		Tests: redisTest("TestConformance$/^Clock$"),
	},
	{
		Name:  "Redis: what is done can be changed",
		Edits: []Edit{{In: "redisstore.swapText", Old: "is[1] ~= done and", New: ""}},
		Tests: redisTest("TestConformance$/^Clock$"),
	},
	{
		Name:  "Redis: it is never too late",
		Edits: []Edit{{In: "redisstore.swapText", Old: "now >= tonumber(stale)", New: "false"}},
		Tests: redisTest("TestConformance$/^Swap$"),
	},
	{
		Name:  "Redis: a claim expires",
		Edits: []Edit{{In: "redisstore.swapText", Old: "if state == done and retain ~= '' then -- nothing else expires", New: "if retain ~= '' then -- nothing else expires"}},
		Tests: redisTest("TestNothingUnfinishedExpires"),
	},
	{
		Name:  "Redis: an expired record keeps no nonce",
		Edits: []Edit{{In: "redisstore.swapText", Old: "local grace = 3600000000", New: "local grace = 0"}},
		Tests: redisTest("TestNothingUnfinishedExpires"),
	},
	{
		Name:  "Redis: what is done is listed as unfinished",
		Edits: []Edit{{In: "redisstore.swapText", Old: "if state == '0' or state == done then", New: "if state == '0' then"}},
		Tests: redisTest("TestTheIndexIsEmpty"),
	},
	{
		Name:  "Redis: a full server refuses the end of what is under way",
		Edits: []Edit{{In: "redisstore.changeScript", Old: "allowedWhenFull", New: "refusedWhenFull"}},
		Tests: redisTest("TestAFullServer"),
	},
	{
		Name:  "Redis: a replica is read",
		Edits: []Edit{{In: "redisstore.allowedWhenFull", Old: "flags=allow-oom", New: "flags=allow-oom,no-writes"}},
		Tests: redisTest("TestAStandbyIsDown"),
	},
	{
		Name:  "Redis: leases are renewed one by one",
		Edits: []Edit{{In: "redisstore.(*Store).Renew", Old: "answers, confirmed, err := s.send(ctx, renewScript, false, calls)", New: "answers, confirmed, err := s.send(ctx, renewScript, false, calls[:1])\nfor i := 1; i < len(calls) && err == nil; i++ {\na, c, e := s.send(ctx, renewScript, false, calls[i:i+1])\nanswers, confirmed, err = append(answers, a...), confirmed && c, e\n}"}},
		Tests: redisTest("TestCommandsOfEachCall"),
	},
	{
		Name:  "Redis: a lease is renewed whoever holds it",
		Edits: []Edit{{In: "redisstore.renewText", Old: "or is[3] ~= ARGV[2]", New: ""}},
		Tests: redisTest("TestConformance$/^Lease$"),
	},
	{
		Name:  "Redis: scripts are never sent again",
		Edits: []Edit{{In: "redisstore.(*Store).send", Old: `if load || !redis.HasErrorPrefix(err, "NOSCRIPT")`, New: "if true"}},
		Tests: redisTest("TestScriptsAreForgotten"),
	},
}
