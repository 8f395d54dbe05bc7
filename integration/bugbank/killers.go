package bugbank

func batchTest(test string) []Killer { return []Killer{{Module: "store/pgxstore", Test: test}} }

func console(test string) []Killer {
	return []Killer{{Module: "integration", Package: "console", Test: test}}
}

func consumerTest(test string) []Killer {
	return []Killer{{Module: "integration", Package: "consumer", Test: test}}
}

func isolation(of string) []Killer {
	return []Killer{{Module: "integration", Test: "TestConformance" + of + "$/^Txn$/^Isolation"}}
}

func deadletterOn(test string) []Killer {
	return []Killer{{Module: "integration", Package: "deadletter", Test: test}}
}

func dynamoTest(test string) []Killer { return []Killer{{Module: "store/dynamostore", Test: test}} }

// history is random histories of the engine on memstore, held against a model.
var history = Killer{Module: "integration", Package: "property", Test: "TestHistoriesOfTheEngine"}

// group returns a test of SQLite's group commit.
func group(test string) []Killer {
	return []Killer{{Module: "integration", Package: "sqlstore", Test: test}}
}

func onHold(test string) []Killer {
	return []Killer{{Module: "integration", Package: "hold", Test: test}}
}

func hangsOnHold(test string) []Killer {
	return []Killer{{Module: "integration", Package: "hold", Test: test, Hangs: true}}
}

func onHomes(test string) []Killer {
	return []Killer{{Module: "integration", Package: "home", Test: test}}
}

// onHookrelay is a test on databases.
func onHookrelay(test string) []Killer {
	return []Killer{{Module: "integration", Package: "hookrelay", Test: test}}
}

// hooksOn is a test on databases.
func hooksOn(test string) []Killer {
	return []Killer{{Module: "integration", Package: "hooks", Test: test}}
}

func inboxTest(test string) []Killer {
	return []Killer{{Module: ".", Package: "inbox", Test: test}}
}

func inboxOn(test string) []Killer {
	return []Killer{{Module: "integration", Package: "inbox", Test: test}}
}

func onLease(test string) []Killer { return in("lease", test) }

func onSQLite(test string) []Killer {
	return []Killer{{Module: "integration", Test: "TestConformance$/^SQLite$/^" + test}}
}

func onLeases(test string) []Killer {
	return []Killer{{Module: "integration", Package: "lease", Test: test}}
}

// hangsOnLeases is onLeases for a test that waits for ever with the bug in place.
func hangsOnLeases(test string) []Killer {
	return []Killer{{Module: "integration", Package: "lease", Test: test, Hangs: true}}
}

func mariadbTorture(test string) []Killer { return []Killer{{Module: "integration", Test: test}} }

func mariadbSQL(test string) []Killer {
	return []Killer{{Module: "integration", Package: "sqlstore", Test: test}}
}

var (
	core      = Killer{Module: ".", Package: "store/memstore", Test: "TestConformance"}
	pgx       = Killer{Module: "store/pgxstore", Package: "", Test: "TestConformance$/^prepared"}
	misbehave = Killer{Module: "store/pgxstore", Package: "", Test: "TestHandlersThatMisbehave"}
)

// in returns a test of a package of the root module.
func in(pkg, test string) []Killer { return []Killer{{Module: ".", Package: pkg, Test: test}} }

// failover returns a test that has a standby.
func failover(test string) []Killer { return []Killer{{Module: "integration", Test: test}} }

func naturalOn(test string) []Killer {
	return []Killer{{Module: "examples", Package: "natural", Test: test}}
}

func inOncetest(test string) []Killer {
	return []Killer{{Module: ".", Package: "oncetest", Test: test}}
}

func onStrangers(test string) []Killer {
	return []Killer{{Module: "integration", Package: "oncetest", Test: test}}
}

// outboxTest is a test of package outbox itself, outboxOn one on databases.
func outboxTest(test string) []Killer {
	return []Killer{{Module: ".", Package: "outbox", Test: test}}
}

func outboxOn(test string) []Killer {
	return []Killer{{Module: "integration", Package: "outbox", Test: test}}
}

// planeSuite are the cases of the SQL plane on a store of database/sql.
func planeSuite(store, test string) []Killer {
	return []Killer{{Module: "integration", Test: "TestConformance$/^" + store + "$/^SQL$/^" + test}}
}

func planeTest(test string) []Killer {
	return []Killer{{Module: "integration", Package: "sqlstore", Test: test}}
}

// absentIsTombstone has a Settle believe that what it does not find never will be.
var absentIsTombstone = Edit{
	In: "receipt.(*Table).Settle", Old: "case buried != nil:",
	New: "case !found:\nreturn gateway.Receipt{Operation: operation, Tombstone: true}, nil\ncase buried != nil:",
}

func onReceipts(test string) []Killer {
	return []Killer{{Module: "integration", Package: "receipt", Test: test}}
}

func redisTest(test string) []Killer { return []Killer{{Module: "store/redisstore", Test: test}} }

func brokerTest(test string) []Killer {
	return []Killer{{Module: "integration", Package: "broker", Test: test}}
}

func relayTest(test string) []Killer {
	return []Killer{{Module: "integration", Package: "outbox", Test: test}}
}

func restored(test string) []Killer {
	return []Killer{{Module: "integration", Package: "restore", Test: test + "$/^SQLite$"}}
}

func onSagaCommands() []Killer {
	return []Killer{{Module: "cmd/once", Test: "TestSagaCommands$/^SQLite$"}}
}

func onSaga(test string) []Killer { return in("saga", test) }

func onSagas(test string) []Killer {
	return []Killer{{Module: "integration", Package: "saga", Test: test}}
}

func sharedTest(test string) []Killer {
	return []Killer{{Module: "integration", Package: "shared", Test: test}}
}

func redisCacheTest(test string) []Killer {
	return []Killer{{Module: "store/redisstore", Package: "rediscache", Test: test}}
}

func onceotel(test string) []Killer { return []Killer{{Module: "onceotel", Test: test}} }

func wiring(test string) []Killer {
	return []Killer{{Module: "integration", Package: "telemetry", Test: test}}
}
