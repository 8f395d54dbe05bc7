// Command once shows what package once does, and looks after what it stores.
//
//	once demo          kill a payments service under fire, then count the money
//	once demo serve    run that service
//	once demo events   kill relays, a broker and a receiver under fire, then count the events
//	once demo provider kill a service and the providers it charges through, then count the charges
//	once storm         what retries do to a service that stumbles
//	once migrate       create or update the tables that keep operations
//	once keys show     what happened to an idempotency key
//	once keys list     which keys there are
//	once keys forget   erase what is stored under a key
//	once keys resolve  decide an operation whose outcome is unknown
//	once keys export   write the request of an operation to a file
//	once keys replay   send an exported request to another service
//	once audit list    who has forgotten what, and who has looked
//	once doctor        what in a database's settings would break a promise
//	once relay         deliver the messages of an outbox
//	once outbox list   which messages wait for their delivery
//	once inbox list    which keys wait for a message
//	once deadletter    messages that were given up: list, show, redrive, discard
//	once sweep         delete operations whose retention is over, into an archive if wanted
//	once archive       look into an archive
//	once journal       requests of a client whose outcome is not known
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/oncelib/once/store"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	m := &Main{Stdout: os.Stdout, Stderr: os.Stderr}
	code := m.Run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// Main is the program. Tests run it with pipes in place of a terminal.
type Main struct {
	Stdout io.Writer // results, and nothing else
	Stderr io.Writer // progress and errors

	openStore func(context.Context, *database) (store.Database, error) // for keys and audit; nil: sqlstore.New
}

// command is one subcommand: its flags are fields.
type command interface {
	flags(fs *flag.FlagSet)
	run(ctx context.Context, m *Main, args []string) error
}

// entry is a command in the table of commands.
type entry struct {
	name  string // its words: "demo serve"
	args  string // what follows them
	brief string // one line
	help  string // the rest of its help
	quick bool   // it only reads a little: --timeout bounds all of it, and otherwise only the connection
	make  func() command
}

// entries are in the order of the help text.
func entries() []entry {
	return []entry{
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

// Run runs the command that args name and returns the exit code: 0, 1 for a
// failure, 2 for a command line that is wrong, 130 if it was interrupted.
func (m *Main) Run(ctx context.Context, args []string) int {
	err := m.dispatch(ctx, args)
	var usage *usageError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errSaid):
		return 1
	case errors.As(err, &usage):
		m.complain(err)
		return 2
	case ctx.Err() != nil:
		fmt.Fprintln(m.Stderr, "once: interrupted")
		return 130 // as shells have it
	}
	m.complain(err)
	return 1
}

func (m *Main) dispatch(ctx context.Context, args []string) error {
	if len(args) == 1 && (args[0] == "--version" || args[0] == "-version") {
		args = []string{"version"} // as of other programs
	}
	e, rest := lookup(args)
	switch {
	case e != nil:
		return m.execute(ctx, *e, rest)
	case len(args) > 1 && isHelp(args[0]): // once help demo
		return m.about(ctx, args[1:])
	case len(args) == 0 || isHelp(args[0]):
		m.overview(m.Stdout, args)
		return nil
	case isHelp(args[len(args)-1]) && len(matching(args[:len(args)-1])) > 0: // once migrate --help
		m.overview(m.Stdout, args[:len(args)-1])
		return nil
	case len(matching(args[:1])) > 0:
		return &usageError{fmt.Sprintf("%q is not complete", "once "+strings.Join(args, " ")), suggestion(args[:1])}
	}
	return &usageError{fmt.Sprintf("there is no command %q", args[0]), "once --help"}
}

// lookup finds the command with the most words that args begin with.
func lookup(args []string) (found *entry, rest []string) {
	most := 0
	for _, e := range entries() {
		words := strings.Fields(e.name)
		if len(words) <= most || len(words) > len(args) || strings.Join(args[:len(words)], " ") != e.name {
			continue
		}
		most, found, rest = len(words), &e, args[len(words):]
	}
	return found, rest
}

// matching returns the commands whose name begins with words.
func matching(words []string) (found []entry) {
	for _, e := range entries() {
		if strings.HasPrefix(e.name+" ", strings.Join(words, " ")+" ") {
			found = append(found, e)
		}
	}
	return found
}

func suggestion(words []string) string {
	var names []string
	for _, e := range matching(words) {
		names = append(names, "once "+e.name)
	}
	return strings.Join(names, ", or ")
}

// execute parses the flags, which may stand before and after the arguments.
func (m *Main) execute(ctx context.Context, e entry, args []string) error {
	c := e.make()
	fs := flag.NewFlagSet(e.name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	c.flags(fs)
	timeout := defaultTimeout
	if fs.Lookup("db") != nil {
		fs.DurationVar(&timeout, "timeout", timeout, either(e.quick, "the longest `TIME` for the database to answer", "the longest `TIME` for the database to be reached"))
	}
	var positional []string
	for {
		if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
			m.help(e, fs)
			return nil
		} else if err != nil {
			return &usageError{err.Error(), "once " + e.name + " --help"}
		}
		if fs.NArg() == 0 {
			break
		}
		positional, args = append(positional, fs.Arg(0)), fs.Args()[1:]
	}
	if want := len(strings.Fields(e.args)); len(positional) > want {
		return &usageError{fmt.Sprintf("once %s does not know what to do with %q", e.name, positional[want]), "once " + e.name + " --help"}
	}
	if timeout <= 0 {
		return &usageError{fmt.Sprintf("--timeout %v is not a time to wait for", timeout), "--timeout 10s"}
	}
	ctx = context.WithValue(ctx, timeoutKey{}, timeout)
	if !e.quick {
		return c.run(ctx, m, positional)
	}
	bounded, cancel := context.WithTimeout(ctx, 2*timeout) // to be reached, and to answer
	defer cancel()
	err := c.run(bounded, m, positional)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("%w. Try: a longer --timeout than %v if the database is slow", err, timeout)
	}
	return err
}

// defaultTimeout is that of the flag --timeout.
const defaultTimeout = 10 * time.Second

type timeoutKey struct{}

// timeoutOf returns how long a database may be silent.
func timeoutOf(ctx context.Context) time.Duration {
	if d, ok := ctx.Value(timeoutKey{}).(time.Duration); ok {
		return d
	}
	return defaultTimeout
}
