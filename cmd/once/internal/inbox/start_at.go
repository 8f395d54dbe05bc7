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
	Quick: true, Name: "inbox start-at", Brief: "choose the number of the message with which a key of an inbox begins",
	Help: `Sets the number of the message with which a key of an ordered inbox (inbox.InOrder) begins: the number --seq. Use this
command when you add a consumer and the earlier messages no longer exist. Messages with smaller numbers count as
duplicates. If messages with smaller numbers are parked (stored until earlier messages arrive), the inbox deletes them.
A key never goes back to a smaller number.

Without --yes nothing is changed. The deleted messages cannot be restored.`,
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
		return "", 0, fmt.Errorf("%s has applied or skipped the messages up to %d. The key cannot start at an earlier message, because the inbox would apply messages twice. Try: --seq %d, or a greater number", c.subject(), p.Seq, p.Seq+1)
	}
	what = fmt.Sprintf("%s at message %d; ", c.subject(), c.message.Seq)
	if next := p.Failing; next.Attempts > 0 && c.message.Seq > p.Seq+1 {
		what += fmt.Sprintf("message %d %s; the change loses this message, because no dead letter stores the message; ", p.Seq+1, next)
	}
	if !p.Known {
		return what + "the key is new: the inbox has received no message of the key", 0, nil
	}
	return what + fmt.Sprintf("the key waited for message %d, and %s deleted", p.Seq+1, words.Either(p.Below == 1, "1 message is", fmt.Sprintf("%d%s messages are", p.Below, words.Either(p.More, " or more", "")))), p.Below, nil
}
