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
		title += " --unsafe: the same service, without the library \"once\""
	}
	fmt.Fprintf(w, "\n%s\n%d refunds by %d clients in %s, on %s, seed %d\n\n",
		title, r.Operations, r.Clients, r.Took.Round(100*time.Millisecond), src.Name, c.seed)

	f := newFigures(w)
	f.head("faults in this run")
	f.row(r.Attempts, "requests")
	f.row(r.Kills, "times the service was killed (SIGKILL), with "+words.Count(r.Broken, "request")+" running")
	f.row(r.ClientKills, "times a client was killed in the middle of a request")
	f.row(r.Dropped, "responses lost by the network")
	f.row(r.Abandoned, "requests cut off by the network, or abandoned by their client")
	f.head("responses")
	f.row(r.Replayed, "replays of the stored response: the refund was made before")
	f.row(r.MismatchesRefused, "refusals: a request had a used key and another amount")
	f.row(r.Resumed, "responses to a client that was killed and started again, and that resumed the request from its journal")
	f.row(r.InFlightRefused, "answers to try again later, because the first request was still running")
	f.head("in the database, after the last process had ended")
	f.row(r.Effects, fmt.Sprintf("refunds for %d requested refunds", r.Operations))
	f.row(r.Duplicates, "refunds too many")
	f.row(r.Lost, "refunds lost")
	f.row(r.Entries, "ledger entries")
	f.row(r.ReplayDifferences, fmt.Sprintf("of %d repeated responses differ from the first response", r.Compared))
	if i := r.Instruments; i != nil {
		f.head("in the metrics of the service, which the demo read before each kill and at the end")
		f.row(i.Executed, "refunds executed")
		f.row(i.Last, fmt.Sprintf("of the refunds were executed by the last process; the database has %d refunds since that process started", i.LastEffects))
		f.row(i.Unread, fmt.Sprintf("refunds not counted: the service was killed after the demo had read the metrics; %d refunds were running at the time of the reading", i.UnderWay))
		f.row(i.Replayed, fmt.Sprintf("replays at the end, when %s requested again", words.Either(r.Operations == 1, "the refund was", "the "+words.Count(r.Operations, "refund")+" were")))
		f.row(i.Again, "refunds executed at the end, when they were requested again")
	}
	if err := f.verdict(r.OK, "every refund took effect exactly once, and every replay was equal to the first response, byte for byte.", r.Reasons); err != nil {
		return err
	}
	return c.next(w, r, src, cfg)
}

// next prints the command that the user should run next.
func (c *demo) next(w io.Writer, r killstorm.Report, src database, cfg killstorm.Config) error {
	same := fmt.Sprintf("--ops %d --seed %d", c.ops, c.seed)
	if c.unsafe {
		_, err := fmt.Fprintf(w, "\nNext: the same faults, with the library \"once\"\n  %s demo %s\n", self(), same)
		return err
	}
	fmt.Fprintf(w, "\nNext: the history of one of the keys\n  %s keys show %s --scope %s --db %s\n",
		self(), words.Quoted(r.SampleKey), words.Quoted(cfg.Tenant+" POST /refunds"), src.Paste)
	_, err := fmt.Fprintf(w, "or: the same faults, without the library \"once\"\n  %s demo %s --unsafe\n", self(), same)
	return err
}
