package keys

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/operate/recorded"
)

var replayEntry = cli.Entry{
	Name: "keys replay", Args: "FILE", Brief: "send an exported request to another service",
	Help: `Sends the request in FILE, which "once keys export" has written, to a service that may execute the request: for
example a service in staging, or on your machine. The command sends the method, path, headers and body exactly as in
the file; the header Host is the host of the target. The header Once-Replay-Of contains the ID of the file.

To reproduce a race, --concurrency says how many requests the command sends at the same time, and --times says how often
the command repeats these requests. All requests have the same key, so the service executes only one request, and
replays the stored response for the others.

The file contains no credentials: give the credentials with --header, which you can repeat. With --header @FILE the
command reads header lines from a file. A header that you give replaces the recorded header of the same name. A header
without a value, such as 'Once-First-Sent:', removes the recorded header.

  once keys replay once-6ab9f1eb8f7d3388.json --to http://127.0.0.1:8080 --concurrency 8 \
    --header 'Authorization: Bearer ...'

The command refuses to send the request to the host that recorded the request. The command compares the names and the
known addresses of the two hosts. The command does not follow redirects, and counts a redirect as refused.

For each response the command prints whether the service executed the request, replayed a stored response, or refused
the request (for example because another request with the key was running), and whether the body is the same as in the
other responses. The exit code is 1 if a request got no response, if more than one request was executed, or if the
bodies differ.`,
	Make: func() cli.Runner { return &replay{header: http.Header{}} },
}

const maxReplays = 100_000

type replay struct {
	to                 string
	output             cli.Form
	concurrency, times int
	header             http.Header
}

func (c *replay) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.to, "to", "", "`URL` of the service (required)")
	cli.OnCommandLine(fs, "to") // ONCE_TO is a broker
	fs.IntVar(&c.concurrency, "concurrency", 1, "send `N` requests at the same time")
	fs.IntVar(&c.times, "times", 1, "send `N` groups of requests, one group after the other; --concurrency is the size of a group")
	cli.HeaderFlag(fs, "header", c.header, "a header `LINE` for each request, such as 'Authorization: Bearer ...', or @FILE with one header in each line; can be repeated")
	c.output.Flag(fs)
}

func (c *replay) Run(ctx context.Context, m *cli.Env, args []string) error {
	const try = "once keys replay FILE --to http://127.0.0.1:8080"
	target, err := url.Parse(c.to)
	switch {
	case len(args) == 0 || args[0] == "":
		return cli.Usage("the FILE is missing", try)
	case c.to == "":
		return cli.Usage("--to is missing", try)
	case err != nil || target.Scheme != "http" && target.Scheme != "https" || target.Hostname() == "" || target.RawQuery != "" || target.Fragment != "" || target.User != nil:
		return cli.Usage("--to is not the http or https URL of a service", try)
	case c.concurrency < 1 || c.times < 1 || c.concurrency > maxReplays/c.times:
		return cli.Usage(fmt.Sprintf("--concurrency %d and --times %d are too small or too large", c.concurrency, c.times), fmt.Sprintf("use numbers of at least 1, with at most %d requests in total", maxReplays))
	}
	file, err := os.ReadFile(args[0])
	if err != nil {
		return fmt.Errorf("%w. Try: use a file that once keys export has written", err)
	}
	r, err := recorded.Parse(file)
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	if r.CameFrom(ctx, target, net.DefaultResolver) {
		return fmt.Errorf("the host %s recorded the request, and the command does not send the request to the same host. Try: --to with the address of another service", words.Shown(r.Host))
	}
	for _, name := range r.Redacted {
		if c.header.Values(name) == nil {
			fmt.Fprintf(m.Stderr, "The header %s was left out of the file. Try: --header %s\n", words.Shown(name), words.Quoted(words.Shown(name)+": ..."))
		}
	}
	report, err := r.Replay(ctx, target, recorded.ReplayConfig{Concurrency: c.concurrency, Times: c.times, Header: c.header})
	if err != nil {
		return err
	}
	if err := c.print(m.Stdout, report); err != nil {
		return err
	}
	return verdictOn(report)
}

// verdictOn returns an error if the answers are not as the answers to retries with one key must be.
func verdictOn(r recorded.Report) error {
	switch {
	case r.Unanswered > 0:
		return fmt.Errorf("%s got no answer. Try: check that the service at %s is running", words.Count(r.Unanswered, "request"), words.Shown(r.To))
	case r.Executed > 1:
		return fmt.Errorf("the service executed %d requests with the same key. Try: check that this route of the service uses idempotency keys", r.Executed)
	case !r.BodiesEqual:
		return errors.New("the bodies of the answers differ. Try: -o json, which prints a hash of each body")
	}
	return nil
}

func (c *replay) print(w io.Writer, r recorded.Report) error {
	if c.output != cli.Table {
		return cli.WriteJSON(w, c.output, r)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "ROUND\tSTATUS\tOUTCOME\tBODY\tSAME\n")
	for _, a := range r.Answers {
		same, status := "-", "-"
		if a.Status != 0 {
			status = strconv.Itoa(a.Status)
		}
		if a.Outcome == recorded.OutcomeExecuted || a.Outcome == recorded.OutcomeReplayed {
			same = words.Either(a.SameBody, "yes", "NO")
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\n", a.Round, status, a.Outcome, words.Either(a.Error == "", a.BodySHA256[:min(16, len(a.BodySHA256))], words.Shown(a.Error)), same)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%s sent to %s: %d executed, %d replayed, %d refused, %d without an answer; bodies %s\n",
		words.Count(r.Sent, "request"), words.Shown(r.To), r.Executed, r.Replayed, r.Refused, r.Unanswered, words.Either(r.BodiesEqual, "equal", "DIFFER"))
	return err
}
