package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oncelib/once/internal/base/words"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Root builds the tree of commands.
func (m *Env) Root() *cobra.Command {
	root := parent(&cobra.Command{Use: "once", Short: "manage the data of the library \"once\"", Long: "With the library \"once\", an operation takes effect only one time, even if clients retry the operation.\nThis command manages the data of the library.\n\nTo begin, run: once demo"})
	root.Flags().Bool("version", false, "print the version")
	root.PersistentFlags().StringP("config", "c", "", "the `FILE` with default values for flags (default: once.yaml, if this file exists)")
	root.SetOut(m.Stdout)
	root.SetErr(m.Stderr)
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(helpCommand())
	root.SetHelpCommandGroupID(GroupSetUp)
	root.SetCompletionCommandGroupID(GroupSetUp)
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), "{{if .Runnable}}", "{{if not .Annotations."+incompleteNoun+"}}", 1))
	for _, n := range m.Nouns {
		if !root.ContainsGroup(n.Group) {
			root.AddGroup(&cobra.Group{ID: n.Group, Title: n.Group + ":"})
		}
		noun := parent(&cobra.Command{Use: n.Name, Short: n.Brief, GroupID: n.Group, Annotations: map[string]string{incompleteNoun: "yes"}})
		root.AddCommand(noun)
		for _, e := range n.Entries {
			cmd := noun // the noun itself is a command if it has no verb
			if _, verb, isBelow := strings.Cut(e.Name, " "); isBelow {
				cmd = &cobra.Command{Use: verb, SuggestFor: synonyms[verb]}
				noun.AddCommand(cmd)
			}
			m.fill(cmd, e)
		}
	}
	root.InitDefaultCompletionCmd()
	if c, _, err := root.Find([]string{"completion"}); err == nil {
		c.Short = "print a script that makes a shell complete commands and flags"
	}
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if asked, err := cmd.Flags().GetBool("version"); asked && err == nil {
			root.SetArgs([]string{"version"})
			return root.ExecuteContext(cmd.Context())
		}
		if len(args) == 0 {
			return cmd.Help()
		}
		return incomplete(cmd, args)
	}
	return root
}

// synonyms are the words that other programs use for verbs of this one. A user who types one of them gets the right verb as a suggestion.
var synonyms = map[string][]string{"show": {"get", "describe", "view", "inspect"}, "forget": {"delete", "remove", "rm"}}

// incompleteNoun marks nouns that need a verb: their usage does not show them as commands.
const incompleteNoun = "once_incomplete"

// parent makes a command that only has commands below it.
func parent(cmd *cobra.Command) *cobra.Command {
	cmd.SilenceErrors, cmd.SilenceUsage = true, true // Run prints them
	cmd.Args = cobra.ArbitraryArgs                   // cobra accepts a wrong word as an argument of a noun
	cmd.SuggestionsMinimumDistance = 2
	cmd.RunE = incomplete
	return cmd
}

// incomplete names the commands that begin like this one.
func incomplete(cmd *cobra.Command, args []string) error {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && (len(args) == 0 || slices.Contains(cmd.SuggestionsFor(args[0]), c.Name())) {
			names = append(names, c.CommandPath())
		}
	}
	try := words.Either(len(names) > 0, strings.Join(names, ", or "), cmd.CommandPath()+" --help")
	if len(args) == 0 {
		return Usage(fmt.Sprintf("the command %q needs a subcommand", cmd.CommandPath()), try)
	}
	return Usage(fmt.Sprintf("the command %q does not exist", strings.TrimPrefix(cmd.CommandPath()+" "+args[0], "once ")), try)
}

// fill makes cmd the command of an entry.
func (m *Env) fill(cmd *cobra.Command, e Entry) {
	r := e.Make()
	delete(cmd.Annotations, incompleteNoun)
	cmd.Use = strings.TrimSpace(cmd.Name() + " " + e.Args)
	cmd.Short, cmd.Long, cmd.Hidden = e.Brief, strings.TrimSpace(e.Help), e.Hidden
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.Args = cobra.ArbitraryArgs // the function run counts them, with a better message
	fs := cmd.Flags()
	r.Flags(fs)
	timeout := defaultTimeout
	if fs.Lookup("db") != nil {
		fs.DurationVar(&timeout, "timeout", timeout, words.Either(e.Quick, "wait at most this `TIME` for the database to answer", "wait at most this `TIME` for the connection to the database"))
	}
	if fs.Lookup("output") != nil {
		_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{string(Table), string(JSON), string(JSONL)}, cobra.ShellCompDirectiveNoFileComp)) // cannot fail: the flag exists
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if want := len(strings.Fields(e.Args)); len(args) > want && !strings.HasSuffix(e.Args, "...") {
			if cmd.HasAvailableSubCommands() {
				return incomplete(cmd, args)
			}
			return Usage(fmt.Sprintf("once %s takes no argument %q", e.Name, args[want]), "once "+e.Name+" --help")
		}
		if err := m.configure(fs); err != nil {
			return err
		}
		if timeout <= 0 {
			return Usage(fmt.Sprintf("--timeout %v must be greater than zero", timeout), "--timeout 10s")
		}
		return m.namesStore(fs, m.run(context.WithValue(cmd.Context(), timeoutKey{}, timeout), e, r, timeout, args))
	}
}

func (m *Env) run(ctx context.Context, e Entry, r Runner, timeout time.Duration, args []string) error {
	if !e.Quick {
		return r.Run(ctx, m, args)
	}
	bounded, cancel := context.WithTimeout(ctx, 2*timeout) // one timeout for the connection, and one for the answer
	defer cancel()
	err := r.Run(bounded, m, args)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return Unreachable(fmt.Errorf("%w. Try: use a --timeout longer than %v if the database is slow", err, timeout))
	}
	return err
}

// flagError is the error for a wrong flag. If the word before the flag is not a command, the error is about this word, because the flag belongs to
// the command that the user meant. The value of a flag that a function reads, such as --header, may be a secret, so the error does not repeat the
// value.
func flagError(cmd *cobra.Command, err error) error {
	if args := cmd.Flags().Args(); len(args) > 0 && cmd.HasAvailableSubCommands() {
		return incomplete(cmd, args)
	}
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) && invalid.GetFlag().Value.Type() == "func" {
		err = fmt.Errorf("--%s: %w", invalid.GetFlag().Name, errors.Unwrap(invalid))
	}
	return Usage(err.Error(), cmd.CommandPath()+" --help")
}

// helpCommand is the command "once help". It replaces cobra's help command, which ends with the exit code 0 for an unknown command.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "print the purpose and the flags of a command", SilenceErrors: true, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, words []string) error {
			found, rest, err := cmd.Root().Find(words)
			switch {
			case err != nil || found == nil:
				return Usage(fmt.Sprintf("the command %q does not exist", strings.Join(words, " ")), "once --help")
			case len(rest) > 0:
				return incomplete(found, rest)
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}

// defaultTimeout is the default of the flag --timeout.
const defaultTimeout = 10 * time.Second

type timeoutKey struct{}

// timeoutOf returns how long a database may give no answer.
func timeoutOf(ctx context.Context) time.Duration {
	if d, ok := ctx.Value(timeoutKey{}).(time.Duration); ok {
		return d
	}
	return defaultTimeout
}
