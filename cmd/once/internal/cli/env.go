// Package cli is the frame of the command once: it builds the cobra commands, has the flags that many of them share, opens databases, and prints how
// a command has ended.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/store/sqlplane"
)

// Env is the environment of a command. Tests run commands with buffers instead of a terminal.
type Env struct {
	Stdout io.Writer // results, and nothing else
	Stderr io.Writer // progress and errors

	Nouns []Noun

	// OpenStore opens the store of operations, outboxes, inboxes and dead letters; nil means sqlstore.New.
	OpenStore func(context.Context, *Database) (sqlplane.Database, error)

	// Getenv reads the environment; nil means os.Getenv.
	Getenv func(name string) string
}

// FullBuild is the advice if this build lacks a feature.
const FullBuild = "run the same command with the full build: go run ./cmd/once/full/once"

// Has reports whether this build has a command.
func (m *Env) Has(name string) bool {
	for _, n := range m.Nouns {
		if slices.ContainsFunc(n.Entries, func(e Entry) bool { return e.Name == name }) {
			return true
		}
	}
	return false
}

// Noun is the first word of commands, implemented by one package.
type Noun struct {
	Name, Brief string
	Group       string // the heading in the overview
	Entries     []Entry
}

// The groups of nouns, each of which is a heading in the overview.
const (
	GroupTry     = "Try the library"
	GroupSetUp   = "Set up the database"
	GroupRun     = "Run next to a service"
	GroupOperate = "Inspect and repair stored data"
)

// Alone returns the noun of a command that has no verb.
func Alone(e Entry, group string) Noun { return Noun{e.Name, e.Brief, group, []Entry{e}} }

// Entry is one command.
type Entry struct {
	Name   string // its words: "keys show"
	Args   string // its arguments: "KEY", or "KEY..." for any number
	Brief  string // one line
	Help   string // all the rest
	Quick  bool   // it reads little: --timeout bounds all of it, and otherwise only the connection
	Hidden bool   // a process of the demo
	Make   func() Runner
}

// Runner is a command with its flags as fields.
type Runner interface {
	Flags(fs *pflag.FlagSet)
	Run(ctx context.Context, m *Env, args []string) error
}

// Exit codes, as docs/cli.md lists them.
const (
	ExitFailed      = 1
	ExitUsage       = 2
	ExitNothing     = 3 // the named thing does not exist
	ExitUnreachable = 4 // the database cannot be reached
	exitInterrupted = 130
)

// Run runs the command that args name and returns the exit code.
func (m *Env) Run(ctx context.Context, args []string) int {
	root := m.Root()
	root.SetArgs(append([]string{}, args...)) // nil would mean os.Args
	cmd, err := root.ExecuteContextC(ctx)
	code := exitCode(ctx, err)
	if code == 0 || errors.Is(err, ErrSaid) || errors.Is(err, ErrNothing) {
		return code
	}
	if code == exitInterrupted {
		err = errors.New("interrupted") //nolint:err113 // only printed: no caller compares it
	}
	m.complain(formOf(cmd, args), code, err)
	return code
}

// exitCode is the exit code for err.
func exitCode(ctx context.Context, err error) int {
	switch {
	case err == nil:
		return 0
	case errors.As(err, new(*UsageError)):
		return ExitUsage
	case errors.Is(err, ErrNothing), errors.As(err, new(*nothingError)):
		return ExitNothing
	case errors.Is(err, ErrSaid):
		return ExitFailed
	case ctx.Err() != nil:
		return exitInterrupted
	case errors.As(err, new(*unreachableError)):
		return ExitUnreachable
	}
	return ExitFailed
}

// Preview says that nothing was changed. It is not a failure: the output shows the effect to a script.
func (m *Env) Preview(flags string) error {
	_, err := fmt.Fprintf(m.Stderr, "This is a preview: the command has changed nothing. Try: the same command with %s\n", flags)
	return err
}

// Empty says that a list is empty: an empty standard output could look like a failure.
func (m *Env) Empty(what string) error {
	_, err := fmt.Fprintf(m.Stderr, "There are no %s.\n", what)
	return err
}

// IsTerminal reports whether w is a terminal, where a person sees the output at once.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (m *Env) getenv(name string) string {
	if m.Getenv != nil {
		return m.Getenv(name)
	}
	return os.Getenv(name)
}
