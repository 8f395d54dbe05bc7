package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// inboxDB is a database with its inboxes.
type inboxDB struct{ *cli.DB }

// openInbox opens the inboxes of a database that is there and has been migrated.
func openInbox(ctx context.Context, m *cli.Env, dsn string) (*inboxDB, error) {
	db, err := m.Open(ctx, dsn, operate.Config{})
	if err != nil {
		return nil, err
	}
	return &inboxDB{db}, nil
}

// refused says in the words of the command why nothing was done, if err says so.
func (db *inboxDB) refused(doing string, err error) error {
	var e *store.Error
	switch {
	case cli.IsMissingTable(cli.OwnError(err)) && strings.Contains(cli.OwnError(err).Error(), "once_audit"):
		return fmt.Errorf("%s has no audit: %w. Try: once migrate up --only admin --db %s", db.Name, cli.OwnError(err), db.Paste)
	case cli.IsMissingTable(cli.OwnError(err)):
		return fmt.Errorf("%s has no inbox: %w. Try: once migrate up --only inbox --db %s", db.Name, cli.OwnError(err), db.Paste)
	case !errors.As(err, &e) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded): // the inbox says why
		what, try := cli.Advice(err.Error())
		return fmt.Errorf("%s Try: %s", cli.Sentence(strings.TrimPrefix(what, "inbox: ")), cli.Either(try != "", try, "once inbox list --db "+db.Paste))
	}
	return db.Failed(doing, err)
}

// distinct returns the first values of the first column of an index, each found by one look at it.
func distinct(ctx context.Context, db *sql.DB, d sqlplane.Dialect, table, column string, most int) (list []string, err error) {
	query := dialect.Text(d, "select min("+column+") from "+table+" where "+column+" > ?")
	for last := ""; len(list) < most; {
		var next sql.NullString
		err := db.QueryRowContext(ctx, query, last).Scan(&next)
		if err != nil || !next.Valid {
			return list, err
		}
		last = next.String
		list = append(list, last)
	}
	return list, nil
}

// inboxKey is the flags that name a key of an inbox, and one of its messages.
type inboxKey struct {
	db, consumer, source, topic, key string
	seq                              int64
	by                               operate.By
	output                           cli.Form
	yes                              bool
}

func (c *inboxKey) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	fs.StringVar(&c.consumer, "consumer", "", "the `CONSUMER`, as inbox.Config has it, required")
	fs.StringVar(&c.source, "source", "once", "the `SOURCE` of the messages")
	fs.StringVar(&c.topic, "topic", "", "the `TOPIC`")
	fs.StringVar(&c.key, "key", "", "the `KEY`, required")
	fs.Int64Var(&c.seq, "seq", 0, "the `NUMBER` of the message, required")
	cli.ByFlags(fs, &c.by)
	cli.YesFlag(fs, &c.yes)
	c.output.Flag(fs)
}

func (c *inboxKey) check(command string) error {
	try := "once inbox " + command + " --consumer CONSUMER --source SOURCE --topic TOPIC --key KEY --seq NUMBER --reason WHY --db URL"
	c.source = cmp.Or(c.source, "once") // as the inbox takes it
	for _, flag := range [...]struct {
		name    string
		missing bool
	}{{"consumer", c.consumer == ""}, {"key", c.key == ""}, {"seq", c.seq == 0}, {"reason", strings.TrimSpace(c.by.Reason) == ""}} {
		if flag.missing {
			return cli.Usage("--"+flag.name+" is missing", try)
		}
	}
	if c.seq < 1 {
		return cli.Usage(fmt.Sprintf("--seq %d", c.seq), "--seq 1, or a greater number")
	}
	return checkConsumer(c.consumer)
}

// checkConsumer: inbox.New would panic.
func checkConsumer(consumer string) error {
	if len(consumer) > inbox.MaxConsumer || strings.ContainsFunc(consumer, unicode.IsControl) || !utf8.ValidString(consumer) {
		return cli.Usage(fmt.Sprintf("a consumer is printable text of at most %d bytes", inbox.MaxConsumer), "once inbox list --db URL")
	}
	return nil
}

// message is the one that the flags name.
func (c *inboxKey) message() operate.InboxMessage {
	return operate.InboxMessage{Consumer: c.consumer, Source: c.source, Topic: c.topic, Key: c.key, Seq: c.seq}
}

// subject names the key in words.
func (c *inboxKey) subject() string {
	return fmt.Sprintf("the key %s of the source %s, topic %s, consumer %s", cli.Shown(c.key), cli.Shown(c.source), cli.Shown(c.topic), cli.Shown(c.consumer))
}

// inboxChange is what skip and start-at have done. Its JSON form is a contract with scripts.
type inboxChange struct {
	Consumer string `json:"consumer"`
	Source   string `json:"source"`
	Topic    string `json:"topic"`
	Key      string `json:"key"`
	Seq      int64  `json:"seq"`
	Next     int64  `json:"next"`    // the number of the message that the key waits for, before the change
	Parked   int64  `json:"parked"`  // before the change
	Dropped  int64  `json:"dropped"` // of the parked ones
	Dead     bool   `json:"dead"`    // Next is a dead letter, before the change
	Changed  bool   `json:"changed"` // false: a preview
}

// change carries a command out, or with no --yes tells what it would do. plan says for the place of the key what is done, and how many messages are
// dropped, or why nothing is.
func (c *inboxKey) change(ctx context.Context, m *cli.Env, preview, done string, plan func(*inboxDB, inbox.Place) (what string, dropped int64, err error), do func(*operate.Inboxes) error) error {
	db, err := openInbox(ctx, m, c.db)
	if err != nil {
		return err
	}
	defer db.Close()
	p, err := db.Inbox.Place(ctx, c.message())
	if err != nil {
		return db.refused("read", err)
	}
	what, dropped, err := plan(db, p)
	if err != nil {
		return err
	}
	if !c.yes {
		if err := c.tell(m, preview+what, p, dropped); err != nil {
			return err
		}
		return m.Preview("--yes")
	}
	if err := do(db.Inbox); err != nil {
		return db.refused("change", err)
	}
	return c.tell(m, done+what, p, dropped)
}

func (c *inboxKey) tell(m *cli.Env, doing string, p inbox.Place, dropped int64) error {
	if c.output != cli.Table {
		return cli.WriteJSON(m.Stdout, c.output, inboxChange{c.consumer, c.source, c.topic, c.key, c.seq, p.Seq + 1, p.Parked, dropped, p.Dead, c.yes})
	}
	_, err := fmt.Fprintln(m.Stdout, doing)
	return err
}
