package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/oncelib/once/operate"
)

// Form is the form of the output, of the flag -o.
type Form string

// The forms. The zero value is Table.
const (
	Table Form = "table" // for people
	JSON  Form = "json"  // one document
	JSONL Form = "jsonl" // one line for each item of a list, and one for anything else
)

// Flag adds the flag -o.
func (f *Form) Flag(fs *pflag.FlagSet) {
	*f = Table
	fs.VarP(f, "output", "o", "the `FORM` of the output: table, json or jsonl")
}

// String implements [pflag.Value].
func (f *Form) String() string { return string(*f) }

// Type implements [pflag.Value].
func (f *Form) Type() string { return "form" }

// Set implements [pflag.Value].
func (f *Form) Set(s string) error {
	switch Form(s) {
	case Table, JSON, JSONL:
		*f = Form(s)
		return nil
	}
	return fmt.Errorf("the output form %q does not exist. Try: -o table, -o json, or -o jsonl", s)
}

// formOf is the form that the command line asks for, even if it was not read to its end.
func formOf(cmd *cobra.Command, args []string) Form {
	if cmd != nil {
		if f := cmd.Flags().Lookup("output"); f != nil && f.Value.String() != string(Table) {
			return Form(f.Value.String())
		}
	}
	asked := Table
	for i, arg := range args {
		name, value, hasValue := strings.Cut(arg, "=")
		if name != "-o" && name != "--output" {
			continue
		}
		if !hasValue && i+1 < len(args) {
			value = args[i+1]
		}
		_ = asked.Set(value) // an unknown form stays a table
	}
	return asked
}

// WriteJSON writes v in the form f.
func WriteJSON(w io.Writer, f Form, v any) error {
	e := json.NewEncoder(w)
	if f != JSONL {
		e.SetIndent("", "  ")
	}
	return e.Encode(v)
}

// WriteList writes a list in the form f: page, which contains items, or each item on a line of its own.
func WriteList[T any](w io.Writer, f Form, page any, items []T) error {
	if f != JSONL {
		return WriteJSON(w, f, page)
	}
	for _, item := range items {
		if err := WriteJSON(w, f, item); err != nil {
			return err
		}
	}
	return nil
}

// ShowPage writes a page in the form f. For people, table writes the items, and the command for the next page follows. what names the
// items.
func ShowPage[T any](m *Env, f Form, p operate.Page[T], what string, table func(io.Writer, []T) error) error {
	if p.Items == nil {
		p.Items = []T{} // JSON has an empty list, not null
	}
	if f != Table {
		return WriteList(m.Stdout, f, p, p.Items)
	}
	if len(p.Items) == 0 {
		return m.Empty(what)
	}
	if err := table(m.Stdout, p.Items); err != nil {
		return err
	}
	return m.More(p.Next)
}

// WindowFlags adds the flags --limit and --after of all lists.
func WindowFlags(fs *pflag.FlagSet, w *operate.Window) {
	fs.IntVar(&w.Limit, "limit", operate.DefaultLimit, "print at most `N` items")
	fs.StringVar(&w.After, "after", "", "print the page after this `CURSOR`; the command prints the cursor at the end of each page")
}

// More prints how to get the next page, if one exists.
func (m *Env) More(next string) error {
	if next == "" {
		return nil
	}
	_, err := fmt.Fprintf(m.Stderr, "There are more items. Try: the same command with --after %s\n", next)
	return err
}
