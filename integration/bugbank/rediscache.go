package bugbank

// rediscacheMutants are bugs of package store/redisstore/rediscache.
var rediscacheMutants = []Mutant{
	{
		Name:  "Redis as a cache: what is on its way takes the place of what is there",
		Edits: []Edit{{In: "rediscache.(*Cache).Add", Old: `"nx",`, New: ""}},
		Tests: redisCacheTest("TestArrivesLate"),
	},
	{
		Name:  "Redis as a cache: the time of a result is relative",
		Edits: []Edit{{In: "rediscache.(*Cache).Add", Old: `"pxat", until.UnixMilli()`, New: `"px", 30000`}},
		Tests: redisCacheTest("TestArrivesLate"),
	},
	{
		Name: "Redis as a cache: databases meet",
		Edits: []Edit{
			{In: "rediscache.(*Cache).Get", Old: "c.prefix+key", New: "key"},
			{In: "rediscache.(*Cache).Add", Old: "c.prefix+key", New: "key"},
			{In: "rediscache.(*Cache).Replace", Old: "c.prefix+key", New: "key"},
		},
		Tests: redisCacheTest("TestPrefixSeparatesDatabases"),
	},
}
