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

var skipEntry = cli.Entry{
	Quick: true, Name: "inbox skip", Brief: "give up the message that a key of an inbox waits for",
	Help: `Skips a message: the key of the message no longer waits for the message. Only the keys of an ordered inbox
(inbox.InOrder) wait for messages. Use this command if the message is missing for good or is a dead letter. After the
skip, the inbox applies the later messages of the key. If the inbox receives the skipped message later, the message
counts as a duplicate. A dead letter stays stored; to delete the dead letter and skip its message in one step, use "once
deadletter discard".

The command refuses to skip a message that was received and whose handler fails. A skip of a message whose handler fails
would lose the message: the next delivery would count as a duplicate, and the message would not become a dead letter.
Repair the handler, or wait until the message is a dead letter. If the broker no longer has the message, have the sender
send the message again, or give up the message with "once inbox start-at".

Without --yes nothing is changed.`,
	Make: func() cli.Runner { return new(skip) },
}

type skip struct{ inboxKey }

func (c *skip) Flags(fs *pflag.FlagSet) { c.inboxKey.Flags(fs) }

func (c *skip) Run(ctx context.Context, m *cli.Env, _ []string) error {
	if err := c.check("skip"); err != nil {
		return err
	}
	return c.change(ctx, m, "would skip: ", "skipped: ", c.plan, func(in *operate.Inboxes) error {
		return in.Skip(ctx, c.by, c.message)
	})
}

func (c *skip) plan(db *cli.DB, p inbox.Place) (what string, dropped int64, err error) {
	switch {
	case !p.Known: // a name that is spelt wrong would create a new key
		err = cli.Nothing(fmt.Errorf("%s does not exist in the inbox of %s: the inbox has received no message of this key. Try: once inbox list --db %s", c.subject(), db.Name, db.Paste))
	case c.message.Seq <= p.Seq:
		err = fmt.Errorf("%s does not wait for message %d: the inbox has applied or skipped this message before. Try: once inbox list --db %s", c.subject(), c.message.Seq, db.Paste)
	case c.message.Seq > p.Seq+1:
		err = fmt.Errorf("%s waits for message %d, not for %d. Try: --seq %d", c.subject(), p.Seq+1, c.message.Seq, p.Seq+1)
	case p.There:
		err = fmt.Errorf("the inbox has received message %d of %s, and will soon try to handle the message. Try: wait until the message is applied or is a dead letter", c.message.Seq, c.subject())
	case p.Failing.Attempts > 0:
		err = fmt.Errorf("message %d of %s %s; a skip would lose this message. %s Try: repair the handler; or wait until the message is a dead letter, and then run once deadletter discard. If the broker no longer has the message, let the sender send it again, or run once inbox start-at with --seq %d",
			c.message.Seq, c.subject(), p.Failing, isTried, c.message.Seq+1)
	}
	return fmt.Sprintf("message %d of %s", c.message.Seq, c.subject()) + words.Either(p.Dead, ", which is a dead letter", "") + "; " + waitBehind(p.Parked), 0, err
}

// waitBehind says how many messages wait behind another one.
func waitBehind(n int64) string {
	return words.Either(n == 1, "1 later message of the key waits", fmt.Sprintf("%d later messages of the key wait", n))
}
