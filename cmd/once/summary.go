package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/cmd/once/internal/killstorm"
)

// print tells a stranger what was thrown, what came back and what the database has.
func (c *demo) print(w io.Writer, r killstorm.Report, src demoDB, cfg killstorm.Config) error {
	title := "once demo"
	if c.unsafe {
		title += " --unsafe: the same service, without once"
	}
	fmt.Fprintf(w, "\n%s\n%d refunds by %d clients in %s, on %s, seed %d\n\n",
		title, r.Operations, r.Clients, r.Took.Round(100*time.Millisecond), src.Name, c.seed)

	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', tabwriter.AlignRight)
	row := func(n int, what string) { fmt.Fprintf(t, "    %s\t  %s\n", number(n), what) }
	head := func(s string) { _ = t.Flush(); fmt.Fprintf(w, "  %s\n", s) }
	head("thrown at it")
	row(r.Attempts, "requests")
	row(r.Kills, "times the service was killed (SIGKILL), with "+cli.Count(r.Broken, "request")+" running")
	row(r.ClientKills, "times a client was killed in the middle of a request")
	row(r.Dropped, "answers lost on their way back")
	row(r.Abandoned, "requests cut off, or abandoned by their client")
	head("answered")
	row(r.Replayed, "from the record: the refund was made before")
	row(r.MismatchesRefused, "refused: the key belongs to another amount")
	row(r.Resumed, "to the next process of a client, which resumed it from the journal")
	row(r.InFlightRefused, "told to come back: the first one was still at work")
	head("found in the database when the last process was dead")
	row(r.Effects, fmt.Sprintf("refunds of %d", r.Operations))
	row(r.Duplicates, "too many")
	row(r.Lost, "lost")
	row(r.Entries, "ledger entries")
	row(r.ReplayDifferences, fmt.Sprintf("of %d repeated answers differ from the first", r.Compared))
	if i := r.Instruments; i != nil {
		head("counted by the instruments of the service, which were read before each kill and at the end")
		row(i.Executed, "refunds executed")
		row(i.Last, fmt.Sprintf("of them by the last process, since whose start %d are in the database", i.LastEffects))
		row(i.Unread, fmt.Sprintf("that killed processes have not told of: %d were under way when they were read", i.UnderWay))
		row(i.Replayed, fmt.Sprintf("replays when %s asked for once more after the storm", cli.Either(r.Operations == 1, "the refund was", "the "+cli.Count(r.Operations, "refund")+" were")))
		row(i.Again, "executed then")
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if r.OK {
		fmt.Fprintf(w, "\nOK: every refund took effect exactly once, every replay was the same, byte for byte.\n")
	} else {
		fmt.Fprintf(w, "\nNOT OK\n")
		for i, reason := range r.Reasons {
			if i == 10 {
				fmt.Fprintf(w, "  and %d more\n", len(r.Reasons)-i)
				break
			}
			fmt.Fprintf(w, "  %s\n", reason)
		}
	}
	return c.next(w, r, src, cfg)
}

// next is the line to run next.
func (c *demo) next(w io.Writer, r killstorm.Report, src demoDB, cfg killstorm.Config) error {
	same := fmt.Sprintf("--ops %d --seed %d", c.ops, c.seed)
	if c.unsafe {
		_, err := fmt.Fprintf(w, "\nNext: the same storm, with once\n  %s demo %s\n", self(), same)
		return err
	}
	fmt.Fprintf(w, "\nNext: what happened to one of the keys\n  %s keys show %s --scope %s --db %s\n",
		self(), cli.Quoted(r.SampleKey), cli.Quoted(cfg.Tenant+" POST /refunds"), src.Paste)
	_, err := fmt.Fprintf(w, "or: the same storm, without once\n  %s demo %s --unsafe\n", self(), same)
	return err
}

// self is how the user has called this program, so that the next line can be copied.
func self() string {
	if strings.Contains(os.Args[0], string(filepath.Separator)+"go-build") {
		return "go run ./cmd/once"
	}
	return "once"
}
