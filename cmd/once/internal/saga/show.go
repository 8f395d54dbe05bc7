package saga

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/saga"
)

var showEntry = cli.Entry{
	Quick: true, Name: "saga show", Args: "KEY", Brief: "print the state and the steps of a saga, and why the saga is stuck",
	Help: `Prints the record of a saga in the database: its state; its steps in the order in which the steps began; the key under
which the called service knows a running call; the actions of operators on the saga; and the actions that you can take.
The inputs and results of steps are printed only with --payload. If the service encrypts the inputs and results, the
command also needs --key-file.

A waiting saga continues at a stored time, by the clock of the node that stored the time. "once saga wake" makes the
saga continue at once.`,
	Make: func() cli.Runner { return new(show) },
}

type show struct {
	subject

	output  cli.Form
	payload bool
	key     cli.KeyFile
}

func (c *show) Flags(fs *pflag.FlagSet) {
	c.subject.Flags(fs)
	fs.BoolVar(&c.payload, "payload", false, "also print the inputs and results of steps")
	c.key.Flags(fs)
	c.output.Flag(fs)
}

func (c *show) Run(ctx context.Context, m *cli.Env, args []string) error {
	if len(args) == 0 || args[0] == "" {
		return cli.Usage("the KEY of the saga is missing", "once saga show KEY --db URL, with a KEY of once saga list")
	}
	encrypter, err := c.key.Encrypter()
	if err != nil {
		return err
	}
	db, err := m.Open(ctx, c.db, operate.Config{Encrypter: encrypter})
	if err != nil {
		return err
	}
	defer db.Close()
	one, err := c.find(ctx, m, db, args)
	if err != nil {
		return err
	}
	v, err := db.Sagas.Show(ctx, one.ID())
	switch {
	case err != nil && (c.payload || v.Progress.Steps == nil): // without --payload the command does not show the texts that cannot be decrypted
		return refused(db, "read", err)
	case !c.payload:
		v = v.WithoutBody()
	case v.Progress.Sealed:
		return cli.Usage("the saga is encrypted", "--key-file with the key of the service")
	}
	if c.output != cli.Table {
		return cli.WriteJSON(m.Stdout, c.output, v)
	}
	if err := printView(m.Stdout, v); err != nil {
		return err
	}
	if try := advice(v); len(try) > 0 {
		fmt.Fprintf(m.Stderr, "\nTry: once saga %s --reason WHY --db %s\n", strings.Join(try, fmt.Sprintf(" --reason WHY --db %s\n  or once saga ", db.Paste)), db.Paste)
	}
	return nil
}

func printView(w io.Writer, v operate.SagaView) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	p := v.Progress
	line("key", "%s", words.Shown(v.Key))
	if v.Tenant != "" {
		line("tenant", "%s", words.Shown(v.Tenant))
	}
	line("saga", "%s", words.OrDash(v.Definition))
	line("state", "%s: %s", v.State, v.Meaning())
	if p.Turned != "" {
		line("undo", "because of %s: the saga undoes the steps that took effect", words.Shown(p.Turned))
	}
	if p.Pivot != "" {
		line("pivot", "%s is done: the saga can no longer be undone", words.Shown(p.Pivot))
	}
	if p.Tries > 0 {
		line("tries", "%d attempts of the next step have failed", p.Tries)
	}
	if !p.Due.IsZero() && v.State == saga.StateWaiting {
		line("due", "%s", words.Time(p.Due))
	}
	line("since", "%s", words.Time(v.Since))
	if v.LeaseUntil != nil {
		line("lease until", "%s", words.Time(*v.LeaseUntil))
	}
	if v.ExpiresAt != nil {
		line("expires", "%s", words.Time(*v.ExpiresAt))
	}
	if p.Input != nil {
		line("input", "%s", shownBody(p.Input))
	}
	if len(p.Steps) > 0 {
		fmt.Fprint(t, "\nSTEP\tSTATE\t\n")
	}
	for _, s := range p.Steps {
		fmt.Fprintf(t, "%s\t%s\t%s\n", words.Shown(s.Step), s.State, about(s))
	}
	if len(v.Audit) > 0 {
		fmt.Fprint(t, "\nAUDIT\tBY\tAT\tREASON\tDETAIL\n")
	}
	for _, e := range v.Audit {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", e.Action, words.Shown(e.Who), words.Time(e.At), words.Shown(e.Reason), words.Shown(e.Detail))
	}
	return t.Flush()
}

// about returns the other known facts about a step.
func about(s saga.StepStatus) string {
	var parts []string
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, name+" "+words.Shown(value))
		}
	}
	add("with", s.Failure)
	add("key", s.Key)
	body := func(name string, b []byte) {
		if b != nil {
			parts = append(parts, name+" "+shownBody(b))
		}
	}
	body("input", s.Input)
	body("result", s.Result)
	return strings.Join(parts, ", ")
}

// shownBody returns JSON for a terminal. JSON with unprintable characters is quoted.
func shownBody(b []byte) string {
	if s := string(b); !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return s
	}
	return strconv.Quote(string(b))
}

// advice returns the possible decisions about a stuck saga.
func advice(v operate.SagaView) (try []string) {
	if v.State != saga.StateStuck {
		return nil
	}
	for _, d := range v.Choices() {
		about := string(d.Action) + " " + named(v.Saga)
		if d.Step != "" {
			about += " --step " + words.Quoted(d.Step)
		}
		if d.Action == saga.ActionForce {
			try = append(try, about+" --value JSON", about+" --not-made")
			continue
		}
		try = append(try, about)
	}
	return try
}
