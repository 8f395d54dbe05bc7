package bugbank

// redisbrokerMutants are bugs of package broker/redisbroker.
var redisbrokerMutants = []Mutant{
	{
		Name:  "Redis Streams: what a server says for now is a failure of the message",
		Edits: []Edit{{In: "redisbroker.classify", Old: "redis.HasErrorPrefix(err, r.answer)", New: "redis.HasErrorPrefix(err, r.answer+\"?\")"}},
		Tests: brokerTest("TestRedisRefusals"),
	},
	{
		Name:  "Redis Streams: a client that the program has closed is waited for",
		Edits: []Edit{{In: "redisbroker.classify", Old: "errors.Is(err, redis.ErrClosed)", New: "errors.Is(err, redis.Nil)"}},
		Tests: brokerTest("TestRedisRefusals"),
	},
	{
		Name:  "Redis Streams: a stream is trimmed, and that was not asked for",
		Edits: []Edit{{In: "redisbroker.(*publisher).send", Old: "MaxLen: p.cfg.MaxLen", New: "MaxLen: max(p.cfg.MaxLen, 300)"}},
		Tests: brokerTest("TestRedisMaxLen"),
	},
	{
		Name:  "Redis Streams: a message that too few replicas have is delivered",
		Edits: []Edit{{In: "redisbroker.(*publisher).send", Old: "have < p.cfg.Replicas", New: "have < 0"}},
		Tests: brokerTest("TestRedisReplicas"),
	},
	{
		Name:  "Redis Streams: a server that evicts keys will do",
		Edits: []Edit{{In: "redisbroker.checkServer", Old: `info["maxmemory_policy"] != "noeviction"`, New: `info["maxmemory_policy"] == ""`}},
		Tests: brokerTest("TestRedisCheck"),
	},
	{
		Name:  "Redis Streams: a group begins behind what the stream has",
		Edits: []Edit{{In: "redisbroker.(*stream).read", Old: `s.cfg.Group, "0"`, New: `s.cfg.Group, "$"`}},
		Tests: []Killer{{Module: "integration", Package: "consumer", Test: "TestRedisGroupIsLost", Hangs: true}},
	},
	{
		Name:  "Redis Streams: a group that was deleted is not made again",
		Edits: []Edit{{In: "redisbroker.(*stream).read", Old: "s.created = false", New: "s.created = true"}},
		Tests: []Killer{{Module: "integration", Package: "consumer", Test: "TestRedisGroupIsLost", Hangs: true}},
	},
	{
		Name:  "Redis Streams: the server hears nothing of messages at work",
		Edits: []Edit{{In: "redisbroker.(*receipt).Extend", Old: "s.answers.extends = append(s.answers.extends, r.id)", New: ""}},
		Tests: consumerTest("TestRedisHandlerIsSlow"),
	},
	{
		Name:  "Redis Streams: what another group has not read is deleted",
		Edits: []Edit{{In: "redisbroker.trimText", Old: "keep(of['last-delivered-id'])", New: ""}},
		Tests: consumerTest("TestRedisKeep"),
	},
	{
		Name:  "Redis Streams: what is pending is deleted",
		Edits: []Edit{{In: "redisbroker.trimText", Old: "of['pending'] > 0", New: "of['pending'] < 0"}},
		Tests: consumerTest("TestRedisKeep"),
	},
	{
		Name:  "Redis Streams: what is young is deleted",
		Edits: []Edit{{In: "redisbroker.(*stream).tidy", Old: "time.Now().Add(-s.cfg.Keep)", New: "time.Now()"}},
		Tests: consumerTest("TestRedisYoung"),
	},
	{
		Name:  "Redis Streams: a consumer is deleted with what is pending",
		Edits: []Edit{{In: "redisbroker.tidyText", Old: "of['pending'] == 0", New: "of['pending'] >= 0"}},
		Tests: consumerTest("TestRedisDrains"),
	},
	{
		Name:  "Redis Streams: the end gives nothing back",
		Edits: []Edit{{In: "redisbroker.(*receipt).Again", Old: "a.gives = append(a.gives, r.id)", New: "_ = a"}},
		Tests: []Killer{{Module: "broker/redisbroker", Package: ".", Test: "TestAnswersAreSentOncePerMessage"}},
	},
	{
		Name:  "Redis Streams: messages in trouble are held without a bound",
		Edits: []Edit{{In: "redisbroker.(*consumer).isFull", Old: "c.apart >= bounds.Prefetch || c.bytes >= bounds.PrefetchBytes", New: "c.apart < 0 && bounds.Prefetch > 0"}},
		Tests: []Killer{{Module: "broker/redisbroker", Package: ".", Test: "TestMessagesInTrouble"}},
	},
	{
		Name:  "Redis Streams: messages that were trimmed are lost in silence",
		Edits: []Edit{{In: "redisbroker.(*stream).claim", Old: "len(gone) > 0", New: "len(gone) > 1000"}},
		Tests: []Killer{{Module: "integration", Package: "consumer", Test: "TestRedisTrimmed", Hangs: true}},
	},
	{
		Name:  "Redis Streams: what a group has missed is not told",
		Edits: []Edit{{In: "redisbroker.checkGroup", Old: "missed > 0", New: "missed > 1000"}},
		Tests: consumerTest("TestRedisTrimmed"),
	},
	{
		Name:  "Redis Streams: how often a message was delivered is not told",
		Edits: []Edit{{In: "redisbroker.(*stream).claim", Old: "max(2, counts[id])", New: "min(2, counts[id])"}},
		Tests: consumerTest("TestRedisPoison"),
	},
	{
		Name:  "Redis Streams: a stream that cannot be read ends all others",
		Edits: []Edit{{In: "redisbroker.(*stream).readAll", Old: "!known && refusesUser(err)", New: "!known"}},
		Tests: []Killer{{Module: "integration", Package: "consumer", Test: "TestRedisSickStream", Hangs: true}},
	},
}
