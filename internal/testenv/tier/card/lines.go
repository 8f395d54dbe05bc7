package main

import "strings"

// line is a row of the card: a test, or a test on one database if it has a subtest for each database.
type line struct {
	claim    string
	dir, run string   // the package, and the pattern for go test -run
	env      []string // additional environment
	once     bool     // the test runs once to its end, and not in each round
	unseeded bool     // the test chooses its seed itself
}

// on returns one line for each database. The names of the databases are those of the subtests.
func (l line) on(databases ...string) (list []line) {
	for _, d := range databases {
		one := l
		one.run += "/^" + strings.ReplaceAll(d, " ", "_") + "$"
		list = append(list, one)
	}
	return list
}

// database returns what the row says about where it has run.
func (l line) database() string {
	for _, name := range strings.Split(l.run, "/")[1:] {
		return strings.ReplaceAll(strings.Trim(name, "^$"), "_", " ")
	}
	return "all of the test"
}

const (
	pgx      = "pgxstore"
	postgres = "PostgreSQL, sqlstore"
	mariaDB  = "MariaDB"
	mySQL    = "MySQL"
	sqlite   = "SQLite"
)

const integration = "integration"

// lines returns the rows, in the order of the card.
func lines() (list []line) {
	servers := []string{pgx, postgres, mariaDB, mySQL}
	all := append([]string{sqlite}, servers...)
	long := []string{"ONCE_TORTURE=long"}
	add := func(claim, dir, test string, databases ...string) {
		l := line{claim: claim, dir: dir, run: "^" + test + "$"}
		if len(databases) == 0 {
			list = append(list, l)
			return
		}
		list = append(list, l.on(databases...)...)
	}
	// The two long tests come first, because each occupies a worker for most of the time.
	for _, kind := range []string{"synchronous", "asynchronous"} {
		for _, database := range servers {
			l := line{claim: "A primary dies under load, and its " + kind + " standby is promoted", dir: integration, run: "^TestFailoversUnderLoad$", env: long, once: true}
			for _, one := range l.on(database) {
				one.run += "/^" + kind + "$"
				list = append(list, one)
			}
		}
	}
	list = append(list, line{claim: "A bug is put into the code, and a test finds it", dir: "integration/bugbank", run: "^TestEveryMutantIsKilled$", once: true, unseeded: true})
	add("Duplicates of each request, from four processes at once", integration, "TestStormOfDuplicates", all...)
	add("A process is killed at each point of an operation", integration, "TestKillAtEveryPoint", all...)
	add("Each call to the database fails", integration, "TestNthStatementFails", all...)
	add("The answer to a COMMIT is lost", integration, "TestConnectionIsCutAtCommit", servers...)
	add("A process is stopped in the middle, and goes on later", integration, "TestStopAtEveryPoint", servers...)
	add("The database server is killed inside a commit", integration, "TestServerKill", servers...)
	add("The clock of the server steps", integration, "TestClockStepsByAnHour", all...)
	add("The disk answers with errors", integration, "TestIOError")
	add("The disk is full", integration, "TestFullDisk")
	add("Random histories of callers, nodes and a store", "integration/property", "TestHistoriesOfTheEngine")
	add("Work that calls other services is killed at each point", "integration/lease", "TestKillAtEveryPoint")
	add("Two nodes finish the work of dead ones", "integration/lease", "TestTwoCompleters")
	add("All schedules of faults of short sagas", "saga", "TestTwoFaults")
	add("A saga is killed at each of its commits and requests", "integration/saga", "TestKillAtEveryPoint")
	add("Events: relays are killed and stopped, nothing is lost or out of order", "integration/outbox", "TestRelayOrderAndLossOnEveryCell")
	add("Events: a relay is killed at each point", "integration/outbox", "TestRelayKilledAtEveryPoint")
	add("Messages: consumers are killed and stopped, messages come twice", "integration/consumer", "TestConsumersAreKilled")
	add("Messages: the connections of an inbox are cut", "integration/inbox", "TestConnectionsAreCut")
	add("Webhooks: a sender is killed at each point", "integration/hookrelay", "TestKilledAtEachPoint")
	add("A gateway is killed at each point of a forward", "integration/gateway", "TestGatewayDies")
	return list
}
