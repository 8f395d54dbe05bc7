package journal

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/base/words"
)

var resolveEntry = cli.Entry{
	Name: "journal resolve", Args: "KEY", Brief: "record whether the request of an intent took effect",
	Help: `Closes an intent (the record of a request) in the journal of a client. Before you run this command, find out in the
records of the server whether the request took effect. Do not guess from the age of the intent.

  --as applied       the request took effect: no client sends it again
  --as not-applied   the request did not take effect, and cannot take effect any more: a caller that still wants
                     the effect sends a new request with a new key

Without --yes nothing is changed. As long as the key of the intent has not expired, prefer "once journal resume",
which sends the request again with the same key. If the journal is a file, stop its client before you run this
command.`,
	Make: func() cli.Runner { return new(resolve) },
}

type resolve struct {
	place   place
	url, as string
	yes     bool
}

func (c *resolve) Flags(fs *pflag.FlagSet) {
	c.place.Flags(fs)
	fs.StringVar(&c.url, "url", "", "the `URL` of the intent, if several intents have this key")
	fs.StringVar(&c.as, "as", "", "the `OUTCOME` of the request: applied or not-applied (required)")
	cli.YesFlag(fs, &c.yes)
}

func (c *resolve) Run(ctx context.Context, m *cli.Env, args []string) (err error) {
	const try = "once journal resolve KEY --as applied --file PATH, or --as not-applied"
	switch {
	case len(args) == 0 || args[0] == "":
		return cli.Usage("the KEY is missing", try)
	case c.as != "applied" && c.as != "not-applied":
		return cli.Usage(fmt.Sprintf("--as %q is not an outcome of a request", c.as), try)
	}
	f, err := c.place.open(ctx, m)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	in, err := f.find(ctx, args[0], c.url)
	if err != nil {
		return err
	}
	intent := fmt.Sprintf("%s %s with the key %s", words.Shown(in.Method), words.Shown(in.URL), words.Shown(in.Key))
	if !c.yes {
		fmt.Fprintf(m.Stdout, "would close as %s: %s\n", c.as, intent)
		return m.Preview("--yes")
	}
	if err := f.Resolve(ctx, in.ID); err != nil {
		return err
	}
	advice := "The request took effect: do not send it again."
	if c.as == "not-applied" {
		advice = "The request did not take effect: a caller that still needs the effect sends a new request with a new key."
	}
	fmt.Fprintf(m.Stdout, "%s is closed as %s. %s\n", intent, c.as, advice)
	return nil
}
