package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

// usageError is a command line that cannot be meant so.
type usageError struct{ what, try string }

func (e *usageError) Error() string { return e.what + ". Try: " + e.try }

// errSaid is a failure about which everything has been said.
var errSaid = errors.New("said")

// complain writes what happened, and what to try on a line of its own.
func (m *Main) complain(err error) {
	what, try := err.Error(), "once --help"
	if i := strings.LastIndex(what, "Try: "); i >= 0 {
		what, try = what[:i], what[i+len("Try: "):]
	}
	fmt.Fprintf(m.Stderr, "once: %s\nTry: %s\n", strings.TrimRight(what, " \n"), try)
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
			fmt.Fprintf(w, "  %-16s %s\n", e.name, e.brief)
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
