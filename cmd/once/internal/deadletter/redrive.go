package deadletter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/operate"
)

var redriveEntry = cli.Entry{
	Name: "deadletter redrive", Args: "UID", Brief: "redrive dead letters: try to deliver or handle the messages again",
	Help: `Marks dead letters to be tried again: the dead letter with this UID, or all dead letters that match the flags, or all
dead letters. The running inboxes and relays then try the marked messages. A redriven message keeps its ID. Each message
is applied exactly one time, even if two redrives run at the same time or this command is killed.

With --canary one dead letter is tried first, and the other dead letters are tried only after the first dead letter was
applied. --rate limits how many dead letters are tried per second. With --wait the command prints the progress until
each dead letter was tried; without --wait the command ends when all dead letters are marked. Messages whose first
failure is more than 7 days ago are not marked, because receivers may have forgotten the IDs of these messages and could
apply the messages twice. --beyond-retention also marks the messages whose first failure is more than 7 days ago.

--resume continues a redrive that was killed. --cancel ends a redrive: the dead letters that were not tried yet stay in
the database until an operator redrives or discards these dead letters. Without --yes nothing is changed: the command
counts the dead letters, and prints a value for --before. With the printed value, --before chooses exactly the counted
dead letters, and no later dead letters. --resume needs no --yes, because --yes was given when the redrive began.`,
	Make: func() cli.Runner { return new(redrive) },
}

type redrive struct {
	db, resume, cancel string
	output             cli.Form
	filter             letterFilter
	by                 operate.By
	opts               deadletter.RedriveOptions
	yes, wait          bool
}

func (c *redrive) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	c.filter.Flags(fs)
	fs.Float64Var(&c.opts.Rate, "rate", 0, "try at most `N` dead letters a second (default: all at once)")
	fs.BoolVar(&c.opts.Canary, "canary", false, "try one dead letter first, and the other dead letters only after the first dead letter was applied")
	fs.BoolVar(&c.opts.DryRun, "dry-run", false, "only count the dead letters")
	fs.BoolVar(&c.opts.BeyondRetention, "beyond-retention", false, "also try messages whose IDs the receivers may have forgotten")
	cli.ByFlags(fs, &c.by)
	fs.StringVar(&c.resume, "resume", "", "continue the redrive with this `UID`")
	fs.StringVar(&c.cancel, "cancel", "", "end the redrive with this `UID`")
	fs.BoolVar(&c.wait, "wait", false, "print the progress until every dead letter was tried")
	cli.YesFlag(fs, &c.yes)
	c.output.Flag(fs)
}

func (c *redrive) Run(ctx context.Context, m *cli.Env, args []string) error {
	if err := c.check(args); err != nil {
		return err
	}
	db, err := m.Open(ctx, c.db, operate.Config{})
	if err != nil {
		return err
	}
	defer db.Close()
	var r operate.Redrive
	switch {
	case c.resume != "":
		r, err = db.Letters.Continue(ctx, c.resume)
	case c.cancel != "" && !c.yes:
		return c.previewCancel(ctx, m, db)
	case c.cancel != "":
		r, err = db.Letters.Cancel(ctx, c.by, c.cancel)
	default:
		var now time.Time
		if now, err = c.filter.resolve(ctx, db); err != nil {
			return err
		}
		if !c.yes || c.opts.DryRun {
			return c.preview(ctx, m, db, now)
		}
		if none, err := c.none(ctx, m, db); none || err != nil {
			return err
		}
		if c.opts.Canary {
			fmt.Fprintln(m.Stderr, "waiting until an inbox or a relay has tried the first dead letter (the canary)")
		}
		r, err = db.Letters.Redrive(ctx, c.by, c.filter.LetterFilter, c.opts)
	}
	if err != nil {
		if r.UID != "" && !errors.Is(err, deadletter.ErrNoRun) { // also after an interruption, because nothing else reports the redrive
			fmt.Fprintf(m.Stderr, "redrive %s is not complete. To continue this redrive, try: once deadletter redrive --resume %s --db %s\n", r.UID, r.UID, db.Paste)
		}
		return refused(db, "change", err)
	}
	if c.filter.UID != "" && r.Total+r.Left == 0 {
		return notDead(db, c.filter.UID)
	}
	if c.wait {
		left := r.Left
		if r, err = c.follow(ctx, m.Stderr, db, r); err != nil {
			fmt.Fprintf(m.Stderr, "redrive %s continues without this command. To see the progress of this redrive, try: once deadletter redrive --resume %s --wait --db %s\n", r.UID, r.UID, db.Paste)
			return refused(db, "read", err)
		}
		r.Left = left
	}
	if c.output != cli.Table {
		return cli.WriteJSON(m.Stdout, c.output, r)
	}
	return c.tell(m, db, r)
}

func (c *redrive) check(args []string) error {
	const try = "once deadletter redrive UID --reason WHY --db URL"
	if len(args) > 0 {
		c.filter.UID = args[0]
	}
	switch {
	case len(args) > 0 && args[0] == "": // an empty variable in a script must not mean all letters
		return cli.Usage("the UID is empty", try)
	case (c.resume != "" || c.cancel != "") && (c.filter.UID != "" || c.filter.again() != ""):
		return cli.Usage("--resume and --cancel apply to a whole redrive, not to chosen dead letters", "use --resume or --cancel without the UID of a dead letter, and without flags that choose dead letters")
	case c.resume != "" && c.cancel != "":
		return cli.Usage("--resume and --cancel cannot be used together", "use only one of these flags")
	case !(c.opts.Rate >= 0): // NaN is refused too
		return cli.Usage(fmt.Sprintf("--rate %v must not be negative", c.opts.Rate), "--rate 50")
	case c.resume != "" || c.opts.DryRun:
		return nil
	}
	return cli.CheckBy(c.by, try)
}

// none reports whether no dead letter matches, and says so. Then nothing is changed, and the audit gets no entry.
func (c *redrive) none(ctx context.Context, m *cli.Env, db *cli.DB) (bool, error) {
	dry := c.opts
	dry.DryRun = true
	r, err := db.Letters.Redrive(ctx, c.by, c.filter.LetterFilter, dry)
	switch {
	case err != nil:
		return false, refused(db, "read", err)
	case r.Total+r.Left > 0:
		return false, nil
	case c.filter.UID != "":
		return true, notDead(db, c.filter.UID)
	case c.output != cli.Table:
		return true, cli.WriteJSON(m.Stdout, c.output, r)
	}
	_, err = fmt.Fprintln(m.Stdout, "No dead letter that waits for an operator matches the flags. Nothing was changed.")
	return true, err
}

// preview prints the effect of the redrive.
func (c *redrive) preview(ctx context.Context, m *cli.Env, db *cli.DB, now time.Time) error {
	if !c.opts.DryRun {
		if err := db.Audited(ctx); err != nil {
			return err
		}
	}
	flags := c.filter.bound(now)
	dry := c.opts
	dry.DryRun = true
	r, err := db.Letters.Redrive(ctx, c.by, c.filter.LetterFilter, dry)
	if err != nil {
		return refused(db, "read", err)
	}
	if c.filter.UID != "" && r.Total+r.Left == 0 {
		return notDead(db, c.filter.UID)
	}
	if c.output != cli.Table {
		if err := cli.WriteJSON(m.Stdout, c.output, r); err != nil {
			return err
		}
	} else {
		pace := words.Either(c.opts.Rate > 0, fmt.Sprintf(", %v a second", c.opts.Rate), "") + words.Either(c.opts.Canary, ", one dead letter first", "")
		fmt.Fprintf(m.Stdout, "would redrive: %s%s\n", words.Count(int(r.Total), "dead letter"), pace)
		tellLeft(m.Stdout, r)
	}
	if c.opts.DryRun {
		return nil
	}
	return m.Preview(flags)
}

// previewCancel prints which redrive would end.
func (c *redrive) previewCancel(ctx context.Context, m *cli.Env, db *cli.DB) error {
	if err := db.Audited(ctx); err != nil {
		return err
	}
	r, err := db.Letters.Progress(ctx, c.cancel)
	switch {
	case err != nil:
		return refused(db, "read", err)
	case c.output != cli.Table:
		err = cli.WriteJSON(m.Stdout, c.output, r)
	default:
		_, err = fmt.Fprintf(m.Stdout, "would cancel: redrive %s\n%s\n", r.UID, standingOf(r))
	}
	if err != nil {
		return err
	}
	return m.Preview("--yes")
}

func tellLeft(w io.Writer, r operate.Redrive) {
	if r.Left > 0 {
		fmt.Fprintf(w, "left out: %s, because these messages are so old that receivers may have forgotten their IDs. To redrive these messages too, try: --beyond-retention\n", words.Count(int(r.Left), "dead letter"))
	}
}

// tell prints the results of a redrive.
func (c *redrive) tell(m *cli.Env, db *cli.DB, r operate.Redrive) error {
	fmt.Fprintf(m.Stdout, "redrive %s: %s\n%s\n", r.UID, r.State, standingOf(r))
	tellLeft(m.Stdout, r)
	switch {
	case r.State == deadletter.RedriveStopped:
		return fmt.Errorf("the first dead letter (the canary) was not applied, so no other dead letter was tried. Try: once deadletter show %s --db %s", r.Canary, db.Paste)
	case r.Failed > 0:
		return fmt.Errorf("%s tried again, and failed again. Try: once deadletter list --db %s", words.Either(r.Failed == 1, "1 dead letter was", fmt.Sprintf("%d dead letters were", r.Failed)), db.Paste)
	case r.Waiting > 0 && !c.wait:
		fmt.Fprintf(m.Stderr, "To see the progress, try: once deadletter redrive --resume %s --wait --db %s\n", r.UID, db.Paste)
	}
	return nil
}

// standingOf returns the counts of a redrive in one line.
func standingOf(r operate.Redrive) string {
	return fmt.Sprintf("%s: %d applied, %d failed, %d discarded, %d not tried yet", words.Count(int(r.Total), "dead letter"), r.Applied, r.Failed, r.Discarded, r.Waiting)
}

// follow shows the progress until every letter was tried: a bar on a terminal, otherwise a line from time to time.
func (c *redrive) follow(ctx context.Context, w io.Writer, db *cli.DB, r operate.Redrive) (operate.Redrive, error) {
	every, terminal := 10*time.Second, cli.IsTerminal(w)
	if terminal {
		every = time.Second
	}
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	for told := time.Now(); r.State == deadletter.RedriveRunning; {
		if terminal || time.Since(told) >= every {
			told = time.Now()
			showRedrive(w, r, terminal)
		}
		select {
		case <-ctx.Done():
			return r, ctx.Err()
		case <-look.C:
		}
		next, err := db.Letters.Progress(ctx, r.UID)
		if err != nil {
			return r, err
		}
		r = next
	}
	if terminal {
		fmt.Fprint(w, "\r\x1b[K")
	}
	return r, nil
}

func showRedrive(w io.Writer, r operate.Redrive, terminal bool) {
	if !terminal {
		fmt.Fprintln(w, standingOf(r))
		return
	}
	const width = 12
	full := int(width * (r.Total - r.Waiting) / max(1, r.Total))
	fmt.Fprintf(w, "\r%s%s %d/%d  failed %d\x1b[K", strings.Repeat("█", full), strings.Repeat("░", width-full), r.Total-r.Waiting, r.Total, r.Failed)
}
