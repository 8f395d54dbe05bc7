package inbox

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/operate"
)

var startAtEntry = cli.Entry{
	Quick: true, Name: "inbox start-at", Brief: "say with which message a key of an inbox begins",
	Help: `Makes a key of an inbox begin at a message, for a consumer that is added when earlier messages no longer exist:
the message with the number --seq is the next one (inbox.InOrder). Earlier ones count as duplicates, and
parked ones before it are dropped. A key is never set back.

Without --yes nothing is changed. The inbox cannot restore dropped messages.`,
	Make: func() cli.Runner { return new(startAt) },
}

type startAt struct{ inboxKey }

func (c *startAt) Flags(fs *pflag.FlagSet) { c.inboxKey.Flags(fs) }

func (c *startAt) Run(ctx context.Context, m *cli.Env, _ []string) error {
	if err := c.check("start-at"); err != nil {
		return err
	}
	return c.change(ctx, m, "would begin: ", "begins: ", c.plan, func(in *operate.Inboxes) error {
		return in.StartAt(ctx, c.by, c.message)
	})
}

func (c *startAt) plan(_ *cli.DB, p inbox.Place) (what string, dropped int64, err error) {
	if c.message.Seq <= p.Seq {
		return "", 0, fmt.Errorf("%s is behind message %d already, and cannot be set back: messages would be applied twice. Try: --seq %d, or a greater number", c.subject(), p.Seq, p.Seq+1)
	}
	what = fmt.Sprintf("%s at message %d; ", c.subject(), c.message.Seq)
	if next := p.Failing; next.Attempts > 0 && c.message.Seq > p.Seq+1 {
		what += fmt.Sprintf("message %d %s, and is lost: no dead letter keeps it; ", p.Seq+1, next)
	}
	if !p.Known {
		return what + "the key is new: no message of it has come", 0, nil
	}
	return what + fmt.Sprintf("it waited for message %d, and %s dropped", p.Seq+1, words.Either(p.Below == 1, "1 message is", fmt.Sprintf("%d%s messages are", p.Below, words.Either(p.More, " or more", "")))), p.Below, nil
}
