package demo

import (
	"fmt"
	"io"
	"time"

	"github.com/oncelib/once/cmd/once/internal/killstorm"
	"github.com/oncelib/once/internal/base/words"
)

// print explains the faults, the answers and the content of the database to a reader who does not know the demo.
func (c *demo) print(w io.Writer, r killstorm.Report, src database, cfg killstorm.Config) error {
	title := "once demo"
	if c.unsafe {
		title += " --unsafe: the same service, without once"
	}
	fmt.Fprintf(w, "\n%s\n%d refunds by %d clients in %s, on %s, seed %d\n\n",
		title, r.Operations, r.Clients, r.Took.Round(100*time.Millisecond), src.Name, c.seed)

	f := newFigures(w)
	f.head("thrown at it")
	f.row(r.Attempts, "requests")
	f.row(r.Kills, "times the service was killed (SIGKILL), with "+words.Count(r.Broken, "request")+" running")
	f.row(r.ClientKills, "times a client was killed in the middle of a request")
	f.row(r.Dropped, "answers lost on their way back")
	f.row(r.Abandoned, "requests cut off, or abandoned by their client")
	f.head("answered")
	f.row(r.Replayed, "replayed from the stored answer: the refund was made before")
	f.row(r.MismatchesRefused, "refused: the key belongs to another amount")
	f.row(r.Resumed, "answered to the next process of a client, which resumed the request from its journal")
	f.row(r.InFlightRefused, "told to try again later, because the first request was still running")
	f.head("found in the database when the last process was dead")
	f.row(r.Effects, fmt.Sprintf("refunds of %d", r.Operations))
	f.row(r.Duplicates, "too many")
	f.row(r.Lost, "lost")
	f.row(r.Entries, "ledger entries")
	f.row(r.ReplayDifferences, fmt.Sprintf("of %d repeated answers differ from the first answer", r.Compared))
	if i := r.Instruments; i != nil {
		f.head("counted by the instruments of the service, which were read before each kill and at the end")
		f.row(i.Executed, "refunds executed")
		f.row(i.Last, fmt.Sprintf("of these by the last process; the database has %d since that process started", i.LastEffects))
		f.row(i.Unread, fmt.Sprintf("not counted, because a process was killed after the last reading: %d were running at the last reading", i.UnderWay))
		f.row(i.Replayed, fmt.Sprintf("replays, when %s asked for again after the storm", words.Either(r.Operations == 1, "the refund was", "the "+words.Count(r.Operations, "refund")+" were")))
		f.row(i.Again, "executed then")
	}
	if err := f.verdict(r.OK, "every refund took effect exactly once, every replay was the same, byte for byte.", r.Reasons); err != nil {
		return err
	}
	return c.next(w, r, src, cfg)
}

// next prints the command that the user should run next.
func (c *demo) next(w io.Writer, r killstorm.Report, src database, cfg killstorm.Config) error {
	same := fmt.Sprintf("--ops %d --seed %d", c.ops, c.seed)
	if c.unsafe {
		_, err := fmt.Fprintf(w, "\nNext: the same storm, with once\n  %s demo %s\n", self(), same)
		return err
	}
	fmt.Fprintf(w, "\nNext: what happened to one of the keys\n  %s keys show %s --scope %s --db %s\n",
		self(), words.Quoted(r.SampleKey), words.Quoted(cfg.Tenant+" POST /refunds"), src.Paste)
	_, err := fmt.Fprintf(w, "or: the same storm, without once\n  %s demo %s --unsafe\n", self(), same)
	return err
}
