// Package bugbank keeps seeded bugs and runs the tests that must catch them.
//
// A mutant is an edit of one or more functions (or of a constant, variable or type) that
// plants a bug which designs of this kind really have. The edit names the declaration, not
// the file, and is matched token by token: moving code, formatting it or changing its
// comments breaks no mutant. The tree is never touched: mutants are compiled with
// "go test -overlay". Those that edit only functions share a build: each function gets a
// variant for each mutant, and the environment says which one is at work.
//
// The named test must fail; one that passes, or does not compile, or is not there, or fails
// without the bug as well, fails the bank.
//
// One mutant is run by its name, blanks as underscores:
//
//	go test . -run 'TestEveryMutantIsKilled/^the_scope_is_ignored$'
package bugbank

import (
	"path/filepath"
	"slices"
	"strings"
)

// Mutant is one seeded bug.
type Mutant struct {
	Name  string // what is wrong, in words
	Edits []Edit
	Tests []Killer // any one of them is enough; all are run in order until one kills
}

// Edit replaces Old by New in the declaration In, in which Old must occur exactly once.
type Edit struct {
	// In is the name of a function, constant, variable or type at the top of a file:
	// "(*call).settle", "DefaultRetain". Where several packages have it, the package's
	// name stands before it: "pgxstore.(*txn).Commit".
	In string

	// Old is Go code. White space and comments in it do not count. If the declaration has no such
	// code, Old is looked for inside its strings.
	Old string
	New string
}

// Killer names a test: the module's folder, the package in it, and the test.
type Killer struct {
	Module, Package, Test string

	Hangs bool // with the bug in place; it is given the time called hangs and no more
}

func (k Killer) String() string { return filepath.Join(k.Module, k.Package) + " " + k.Test }

// top is the name of the test, without those in it.
func (k Killer) top() string {
	top, _, _ := strings.Cut(k.Test, "$/")
	return top
}

// ran begins the name of what has passed, if the test ran: a test passes also if none of those in it has the name.
func (k Killer) ran() string {
	if top := k.top(); top != k.Test {
		return top + "/"
	}
	return k.Test + " "
}

// target is the package whose tests kill.
type target struct{ module, pkg string }

func (k Killer) target() target         { return target{k.Module, k.Package} }
func (t target) dir(root string) string { return filepath.Join(root, filepath.FromSlash(t.module)) }

// All returns the whole bank.
func All() []Mutant {
	return slices.Concat(
		onceEngineMutants,
		onceReplayMutants,
		onceObserveMutants,
		onceUndoMutants,
		amqpbrokerMutants,
		httpbrokerMutants,
		kafkabrokerMutants,
		natsbrokerMutants,
		redisbrokerMutants,
		watermillbrokerMutants,
		natsMutants,
		otlpMutants,
		probeMutants,
		cliMutants,
		demoMutants,
		cmdDoctorMutants,
		cmdGatewayMutants,
		cmdInboxMutants,
		keysMutants,
		killstormMutants,
		migrateMutants,
		mysqlurlMutants,
		cmdOutboxMutants,
		paymentsMutants,
		processMutants,
		relayMutants,
		requestMutants,
		simulateMutants,
		tortureMutants,
		crashMutants,
		consoleMutants,
		deadletterMutants,
		naturalMutants,
		shopMutants,
		gatewayMutants,
		receiptMutants,
		gaugeMutants,
		homeMutants,
		inboxMutants,
		fingerprintMutants,
		gaugenameMutants,
		hostnameMutants,
		jsonpointerMutants,
		labelMutants,
		lazyMutants,
		lockedfileMutants,
		nestedMutants,
		onwardMutants,
		sealMutants,
		traceparentMutants,
		wireMutants,
		consumeMutants,
		flightMutants,
		replayMutants,
		heldMutants,
		keyedMutants,
		meterMutants,
		ownerMutants,
		receiverMutants,
		releaseMutants,
		rpcMutants,
		attemptsMutants,
		dialectMutants,
		holdMutants,
		letterMutants,
		agedMutants,
		pgsqlMutants,
		sqlguardMutants,
		sqlitegroupMutants,
		txlimitMutants,
		leaseMutants,
		limitMutants,
		messageMutants,
		cloudeventMutants,
		oncehttpMutants,
		canonicalMutants,
		openapiMutants,
		refundplaybookMutants,
		stripeMutants,
		onceotelMutants,
		oncepromMutants,
		oncetestMutants,
		operateMutants,
		operateDoctorMutants,
		recordedMutants,
		outboxMutants,
		archiveMutants,
		retentionMutants,
		retryMutants,
		breakerMutants,
		journalMutants,
		retryhttpMutants,
		sagaMutants,
		dynamostoreMutants,
		memstoreMutants,
		migrationMutants,
		pgxstoreMutants,
		redisstoreMutants,
		rediscacheMutants,
		sqlstoreMutants,
		upkeepMutants,
		telemetryMutants,
		webhookMutants,
		ssrfMutants,
	)
}
