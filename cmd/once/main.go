// Command once shows what package once does, and looks after what it stores. Its commands parse flags and print: the frame
// of the command line is in internal/cli, and what an operator does is in package operate.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/oncelib/once/cmd/once/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := newEnv().Run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// newEnv is the command line on the terminal.
func newEnv() *cli.Env {
	return &cli.Env{Stdout: os.Stdout, Stderr: os.Stderr, Nouns: nouns, Entries: entries()}
}

// The groups of commands in the overview, in its order.
const (
	groupTry     = "Try it"
	groupSetUp   = "Set up"
	groupRun     = "Run beside the service"
	groupOperate = "Look and decide"
)

var nouns = []cli.Noun{
	{Name: "demo", Brief: demoEntry.Brief, Group: groupTry},
	{Name: "storm", Brief: stormEntry.Brief, Group: groupTry},
	{Name: "migrate", Brief: "the tables of the database", Group: groupSetUp},
	{Name: "doctor", Brief: doctorEntry.Brief, Group: groupSetUp},
	{Name: "version", Brief: versionEntry.Brief, Group: groupSetUp},
	{Name: "keys", Brief: "operations by their idempotency keys", Group: groupOperate},
	{Name: "outbox", Brief: "messages that wait for their delivery", Group: groupOperate},
	{Name: "inbox", Brief: "keys that wait for a message", Group: groupOperate},
	{Name: "deadletter", Brief: "messages that were given up", Group: groupOperate},
	{Name: "journal", Brief: "requests of a client whose outcome is not known", Group: groupOperate},
	{Name: "audit", Brief: "what operators have done", Group: groupOperate},
	{Name: "archive", Brief: "operations that were swept into files", Group: groupOperate},
	{Name: "relay", Brief: relayEntry.Brief, Group: groupRun},
	{Name: "sweep", Brief: sweepEntry.Brief, Group: groupRun},
}

func entries() []cli.Entry {
	return []cli.Entry{
		demoEntry, demoServeEntry, demoClientEntry, demoEventsEntry, demoNATSEntry, demoReceiveEntry, demoProviderEntry, demoProvideEntry, demoChargeEntry,
		stormEntry, migrateUpEntry, migrateStatusEntry, migratePrintEntry,
		keysShowEntry, keysListEntry, keysForgetEntry, keysResolveEntry, keysExportEntry, keysReplayEntry, auditListEntry, doctorEntry,
		relayEntry, outboxListEntry, outboxShowEntry, outboxPauseEntry, outboxResumeEntry, outboxSkipEntry, outboxForgetEntry,
		inboxListEntry, inboxSkipEntry, inboxStartAtEntry,
		deadletterListEntry, deadletterShowEntry, deadletterRedriveEntry, deadletterDiscardEntry,
		sweepEntry, archiveVerifyEntry, archiveShowEntry, archiveRestoreEntry,
		journalListEntry, journalResumeEntry, journalResolveEntry, versionEntry,
	}
}
