// Package inbox has the commands of once inbox: received events, and keys that wait for one.
package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/store"
)

// Noun is once inbox.
var Noun = cli.Noun{
	Name: "inbox", Brief: "events that an inbox has received, and keys that wait for a missing event", Group: cli.GroupOperate,
	Entries: []cli.Entry{listEntry, showEntry, skipEntry, startAtEntry, renumberEntry},
}

// isTried is a sentence about the next attempts of a failing message.
const isTried = "The inbox tries the message again. If all attempts fail (10 by default), the message becomes a dead letter."

// refused translates err into the command's words, if it is a refusal.
func refused(db *cli.DB, doing string, err error) error {
	if lacks := db.Lacks(err, "inbox", inbox.Migrations.Capability); lacks != nil {
		return lacks
	}
	if !errors.As(err, new(*store.Error)) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) { // an error of the inbox has the reason
		what, try := words.Advice(err.Error())
		return fmt.Errorf("%s Try: %s", words.Sentence(strings.TrimPrefix(what, "inbox: ")), words.Either(try != "", try, "once inbox list --db "+db.Paste))
	}
	return db.Failed(doing, err)
}

// inboxKey is the flags that name a key of an inbox, and one of its messages.
type inboxKey struct {
	db      string
	message operate.InboxMessage
	by      operate.By
	output  cli.Form
	yes     bool
}

func (c *inboxKey) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	fs.StringVar(&c.message.Consumer, "consumer", "", "the name of the `CONSUMER`, as in inbox.Config.Consumer (required)")
	fs.StringVar(&c.message.Source, "source", "once", "the `SOURCE` of the messages")
	fs.StringVar(&c.message.Topic, "topic", "", "the `TOPIC` of the message")
	fs.StringVar(&c.message.Key, "key", "", "the `KEY` of the message (required)")
	fs.Int64Var(&c.message.Seq, "seq", 0, "the sequence `NUMBER` of the message (required)")
	cli.ByFlags(fs, &c.by)
	cli.YesFlag(fs, &c.yes)
	c.output.Flag(fs)
}

func (c *inboxKey) check(command string) error {
	try := "once inbox " + command + " --consumer CONSUMER --source SOURCE --topic TOPIC --key KEY --seq NUMBER --reason WHY --db URL"
	c.message.Source = cmp.Or(c.message.Source, "once") // the inbox uses the same default
	for _, flag := range [...]struct {
		name    string
		missing bool
	}{{"consumer", c.message.Consumer == ""}, {"key", c.message.Key == ""}, {"seq", c.message.Seq == 0}} {
		if flag.missing {
			return cli.Usage("--"+flag.name+" is missing", try)
		}
	}
	if err := cli.CheckBy(c.by, try); err != nil {
		return err
	}
	if c.message.Seq < 1 {
		return cli.Usage(fmt.Sprintf("--seq %d must be greater than zero", c.message.Seq), "--seq 1, or a greater number")
	}
	return checkConsumer(c.message.Consumer)
}

// checkConsumer returns the error with which inbox.New would panic.
func checkConsumer(consumer string) error {
	if len(consumer) > inbox.MaxConsumer || strings.ContainsFunc(consumer, unicode.IsControl) || !utf8.ValidString(consumer) {
		return cli.Usage(fmt.Sprintf("--consumer must be printable text of at most %d bytes", inbox.MaxConsumer), "once inbox list --db URL")
	}
	return nil
}

// subject names the key in words.
func (c *inboxKey) subject() string {
	return fmt.Sprintf("the key %s (source %s, topic %s, consumer %s)", words.Shown(c.message.Key), words.Shown(c.message.Source), words.Shown(c.message.Topic), words.Shown(c.message.Consumer))
}

// change executes a command, or prints its effect if --yes is missing. plan returns the effect in words for the position of the key, and the number
// of dropped messages, or an error with the reason why nothing is changed.
func (c *inboxKey) change(ctx context.Context, m *cli.Env, preview, done string, plan func(*cli.DB, inbox.Place) (what string, dropped int64, err error), do func(*operate.Inboxes) error) error {
	db, err := m.Open(ctx, c.db, operate.Config{})
	if err != nil {
		return err
	}
	defer db.Close()
	p, err := db.Inbox.Place(ctx, c.message)
	if err != nil {
		return refused(db, "read", err)
	}
	what, dropped, err := plan(db, p)
	if err != nil {
		return err
	}
	if !c.yes {
		// The preview fails as the change would: without the audit nothing can be changed.
		if err := db.Audited(ctx); err != nil {
			return err
		}
		if err := c.tell(m, preview+what, p, dropped); err != nil {
			return err
		}
		return m.Preview("--yes")
	}
	if err := do(db.Inbox); err != nil {
		return refused(db, "change", err)
	}
	return c.tell(m, done+what, p, dropped)
}

func (c *inboxKey) tell(m *cli.Env, doing string, p inbox.Place, dropped int64) error {
	if c.output != cli.Table {
		return cli.WriteJSON(m.Stdout, c.output, operate.InboxChange{InboxMessage: c.message, Next: p.Seq + 1, Parked: p.Parked, Dropped: dropped, Dead: p.Dead, Changed: c.yes})
	}
	_, err := fmt.Fprintln(m.Stdout, doing)
	return err
}
