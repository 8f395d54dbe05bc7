package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

// usageError is a command line that cannot be meant so.
type usageError struct{ what, try string }

func (e *usageError) Error() string { return sentence(e.what) + " Try: " + e.try }

// sentence ends what with a full stop, unless it has an end of its own.
func sentence(what string) string {
	if strings.HasSuffix(what, ".") || strings.HasSuffix(what, "?") {
		return what
	}
	return what + "."
}

// errSaid is a failure about which everything has been said.
var errSaid = errors.New("said")

// complain writes what happened, and what to try on a line of its own.
func (m *Main) complain(err error) {
	what, try := advice(err.Error())
	fmt.Fprintf(m.Stderr, "once: %s\nTry: %s\n", what, either(try != "", try, "once --help"))
}

// advice cuts the advice out of a message. Errors that were wrapped on their way may
// bring several: the first is from where it happened, and knows best.
func advice(message string) (what, try string) {
	var kept []string
	for line := range strings.Lines(message) {
		before, rest, ok := strings.Cut(strings.TrimRight(line, " \n"), "Try: ")
		if before = strings.TrimRight(before, " "); before != "" {
			kept = append(kept, before)
		}
		if ok && try == "" {
			rest, _, _ = strings.Cut(rest, "Try: ")
			try = strings.TrimRight(rest, " .")
		}
	}
	return strings.Join(kept, "\n"), try
}

// about prints the help of the command, or of the commands, that words name.
func (m *Main) about(ctx context.Context, words []string) error {
	if e, rest := lookup(words); e != nil && len(rest) == 0 {
		return m.execute(ctx, *e, []string{"--help"})
	}
	if !isHelp(words[0]) && len(matching(words)) == 0 {
		return &usageError{fmt.Sprintf("there is no command %q", strings.Join(words, " ")), "once --help"}
	}
	m.overview(m.Stdout, words)
	return nil
}

func isHelp(arg string) bool {
	return arg == "help" || arg == "-h" || arg == "-help" || arg == "--help"
}

// overview lists the commands that begin with words.
func (m *Main) overview(w io.Writer, words []string) {
	if len(words) > 0 && isHelp(words[0]) {
		words = nil
	}
	fmt.Fprint(w, "once makes retried operations take effect once.\n\nUsage: once COMMAND [ARGUMENTS] [--flags]\n\n")
	for _, e := range entries() {
		if len(words) == 0 || strings.HasPrefix(e.name, words[0]) {
			fmt.Fprintf(w, "  %-18s %s\n", e.name, e.brief)
		}
	}
	fmt.Fprint(w, "\nonce COMMAND --help tells more. To begin with, try: once demo\n")
}

// help describes one command.
func (m *Main) help(e entry, fs *flag.FlagSet) {
	fmt.Fprintf(m.Stdout, "Usage: once %s", e.name)
	if e.args != "" {
		fmt.Fprintf(m.Stdout, " %s", e.args)
	}
	fmt.Fprintf(m.Stdout, " [--flags]\n\n%s\n", strings.TrimSpace(e.help))
	first := true
	fs.VisitAll(func(f *flag.Flag) {
		if first {
			fmt.Fprint(m.Stdout, "\nFlags:\n")
			first = false
		}
		name, usage := flag.UnquoteUsage(f)
		left := strings.TrimSpace("--" + f.Name + " " + name)
		if len(f.Name) == 1 {
			left = left[1:]
		}
		if f.DefValue != "" && f.DefValue != "0" && f.DefValue != "false" {
			usage += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(m.Stdout, "  %-22s %s\n", left, usage)
	})
}
